tendril_suites(DEVICES cuda SUITES attention attention_layouts conv extremum lifetimes matmul)
tendril_suites(LABELS cuda SUITES copy large_tensors mixed_devices pointwise random_fills two_devices)
