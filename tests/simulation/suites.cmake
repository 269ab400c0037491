tendril_suites(TIMEOUT 300 SUITES page simulation workloads)
tendril_suites(TIMEOUT 600 SUITES page_browser)
