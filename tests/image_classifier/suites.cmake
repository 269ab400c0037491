tendril_suites(TIMEOUT 240 SUITES program)
tendril_suites(PROCESSORS 3 SUITES program)
