tendril_suites(LABELS smoke SUITES cartpole vector_cartpole)
