tendril_suites(TIMEOUT 300 SUITES simulation workloads)
