tendril_suites(DEVICES cpu cuda SUITES dist_processes failure half_optimizer hogwild messages optimizer remote_module results)
tendril_suites(DEVICES cuda SUITES gpu nccl_group real_nccl)
tendril_suites(LABELS property SUITES random_graphs)
tendril_suites(TIMEOUT 180 SUITES failure)
tendril_suites(TIMEOUT 240 SUITES dist_processes unplugged)
tendril_suites(PARTS 2 SUITES collectives dist_processes)  # these mostly wait for deadlines
tendril_suites(TIMEOUT 300 SUITES distributed_checkpoint random_graphs)
tendril_suites(LABELS smoke SUITES context optimizer results)
tendril_suites(PROCESSORS 4 SUITES dist_processes distributed_checkpoint)
tendril_suites(PROCESSORS 2 SUITES unplugged)  # its processes mostly wait
