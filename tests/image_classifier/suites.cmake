tendril_suites(TIMEOUT 240 SUITES program)
