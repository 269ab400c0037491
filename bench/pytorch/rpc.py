"""The figures of ../rpc/compared.cpp with torch.distributed.rpc (TensorPipe): two processes, one line a figure,
"transport <tab> name <tab> value". rpc.py [--pin one|two|none] [--seconds S]

"unix": TensorPipe as it chooses on one host (shared memory, tensors by process_vm_readv); "tcp": its uv transport alone.
"""
import os
import sys
import tempfile
import threading
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def nothing():
    pass


def echo(x):
    return x


def sleep_for_5_ms():
    time.sleep(0.005)


def percentile(micros, p):
    ordered = sorted(micros)
    return ordered[min(len(ordered) - 1, int(p * len(ordered)))]


def timed(seconds, call, before_each=lambda i: None):
    """Microseconds of each call, one after the other."""
    micros = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        before_each(len(micros))
        start = time.perf_counter()
        call()
        micros.append((time.perf_counter() - start) * 1e6)
    return micros


def empty():
    rpc.rpc_sync("server", nothing)


def per_second(in_flight, seconds):
    window, done, start = [], 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        while len(window) < in_flight:
            window.append(rpc.rpc_async("server", nothing))
        window.pop(0).wait()
        done += 1
    rate = done / (time.perf_counter() - start)
    for future in window:
        future.wait()
    return rate


def beside_sleepers(seconds):
    sleeping = []
    micros = timed(seconds, empty, lambda i: i % 100 == 0 and sleeping.append(rpc.rpc_async("server", sleep_for_5_ms)))
    for future in sleeping:
        future.wait()
    return micros


def beside_large(seconds):
    x = torch.ones((64 << 20) // 4)
    rpc.rpc_sync("server", echo, args=(x,))
    done = threading.Event()

    def carry():
        while not done.is_set():
            rpc.rpc_sync("server", echo, args=(x,))

    large = threading.Thread(target=carry)
    large.start()
    micros = timed(seconds, empty)
    done.set()
    large.join()
    return micros


def measure(transport, seconds):
    def say(name, value):
        print(f"{transport}\t{name}\t{value:.1f}", flush=True)

    timed(seconds / 5, empty)
    calls = timed(seconds, empty)
    say("empty call, p50, us", percentile(calls, 0.5))
    say("empty call, p99, us", percentile(calls, 0.99))
    per_second(100, seconds / 5)
    say("calls/s, 100 in flight", per_second(100, seconds))
    for name, size in ("64 KB", 64 << 10), ("1 MB", 1 << 20):
        x = torch.ones(size // 4)
        timed(seconds / 5, lambda: rpc.rpc_sync("server", echo, args=(x,)))
        say(f"{name} there and back, p50, us", percentile(timed(seconds, lambda: rpc.rpc_sync("server", echo, args=(x,))), 0.5))
    say("beside 1% that sleep for 5 ms, p50, us", percentile(beside_sleepers(seconds), 0.5))
    say("beside 64 MiB, p99, us", percentile(beside_large(seconds), 0.99))


def run(rank, transport, pin, seconds, meeting):
    if pin != "none":
        os.sched_setaffinity(0, {rank if pin == "two" else 0})
    torch.set_num_threads(1)
    only_tcp = {"_transports": ["uv"], "_channels": ["basic"]} if transport == "tcp" else {}
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{meeting}", rpc_timeout=60, **only_tcp)
    rpc.init_rpc("client" if rank == 0 else "server", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        measure(transport, seconds)
    rpc.shutdown()


def flag(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


if __name__ == "__main__":
    for transport in "unix", "tcp":
        with tempfile.TemporaryDirectory() as folder:
            mp.spawn(run, (transport, flag("--pin", "none"), float(flag("--seconds", "1")), f"{folder}/meeting"), nprocs=2)
