tendril_suites(TIMEOUT 600 SUITES browser)
