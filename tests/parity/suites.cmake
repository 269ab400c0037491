tendril_suites(TIMEOUT 300 SUITES cases)
