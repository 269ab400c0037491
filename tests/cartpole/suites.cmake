tendril_suites(DEVICES cuda SUITES device)
tendril_suites(TIMEOUT 300 SUITES device program)
tendril_suites(PROCESSORS 3 SUITES program)
