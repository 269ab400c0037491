tendril_suites(DEVICES cpu cuda SUITES device indexing matmul pointwise print random_numbers reduce views wrap_around)

# Suites that use the kernels' thread pool or start threads.
tendril_suites(LABELS threads SUITES
  by_index channels_last conv deterministic float32_index float32_kernels float32_lines float32_pointwise half_norm
  large_strided long_lines loops matmul memory_blocks out_of_memory parallel paths random_fills random_numbers reduce
  safetensors signals small_stacks)
# Suites that fill gigabytes or limit the memory of the process.
tendril_suites(LOCK memory SUITES large_strided memory_limit out_of_memory)
