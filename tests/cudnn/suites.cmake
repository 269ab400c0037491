tendril_suites(LABELS cuda SUITES graphs)
