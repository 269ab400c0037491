tendril_suites(DEVICES cpu cuda SUITES device indexing matmul pointwise print random_numbers reduce views wrap_around)
