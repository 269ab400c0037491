"""PyTorch's best settings for small tensors on one machine, for the programs beside this file.

One intra-op thread, the OpenMP OpenBLAS if installed, and OPENBLAS_CORETYPE set from the CPU's flags (in a virtual machine
OpenBLAS may not recognise the CPU and fall back to plain kernels).
"""
import os
import sys

OPENMP_OPENBLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"


def best_environment():
    """The environment variables that PyTorch must see before it is loaded."""
    wanted = {"OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2"}
    try:
        with open("/proc/cpuinfo") as f:
            flags = next((line.split() for line in f if line.startswith("flags")), [])
    except OSError:
        flags = []
    if "avx512f" in flags:
        wanted["OPENBLAS_CORETYPE"] = "SKYLAKEX"
    elif "avx2" in flags:
        wanted["OPENBLAS_CORETYPE"] = "HASWELL"
    if os.path.isdir(OPENMP_OPENBLAS):
        wanted["LD_LIBRARY_PATH"] = OPENMP_OPENBLAS
    return {name: value for name, value in wanted.items() if name not in os.environ}


def use_best():
    """Starts this program again with what is missing; before PyTorch is imported."""
    if missing := best_environment():
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **missing})
