tendril_suites(TIMEOUT 300 SUITES cases)
tendril_suites(LABELS threads SUITES cases)
