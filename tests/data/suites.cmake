tendril_suites(LABELS smoke SUITES dataset sampler transforms)
tendril_suites(LABELS threads SUITES loader readers)
