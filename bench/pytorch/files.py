"""What bench/tensor/files.cpp does, by PyTorch and safetensors: python3 files.py FOLDER, with bench.safetensors in it."""
import os
import statistics
import sys
import time

import torch
from safetensors.torch import load_file, save_file

file = os.path.join(sys.argv[1], "bench.safetensors")
mib = os.path.getsize(file) / 2**20
tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
targets = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


def measure(name, function):
    times = []
    for run in range(6):
        start = time.perf_counter()
        function()
        if run > 0:
            times.append(1e3 * (time.perf_counter() - start))
    median = statistics.median(times)
    print(f"{name}\t{median:.2f} ms\t{mib * 1.048576 / median:.2f} GB/s", flush=True)


def copied():
    for name, tensor in load_file(file).items():
        targets[name].copy_(tensor)


print(f"PyTorch {torch.__version__}")
measure("load_file", lambda: load_file(file))
measure("load_file, copied into parameters", copied)
measure("save_file (no fsync)", lambda: save_file(tensors, file))
