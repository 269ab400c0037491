"""The cases of ../tensor/large.cpp: one line a case, "case <tab> milliseconds". tensor.py [--threads N] [--least]
[--device cuda]: times between events, of ten runs at once"""
import os
import sys
import time

threads = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else os.cpu_count()
import torch

torch.set_num_threads(threads)
least = "--least" in sys.argv
on_device = "--device" in sys.argv
if on_device:
    torch.set_default_device("cuda")
F = torch.nn.functional


def measure_on_device(name, f):
    times = []
    for _ in range(3):
        f()
    for _ in range(11):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(10):
            f()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 10)
    print(f"{name}\t{sorted(times)[5]:.4f}", flush=True)


def measure(name, f):
    try:
        measure_here(name, f)
    except (AttributeError, RuntimeError) as missing:  # 1.13 has no attention, and no product of float16 on the CPU
        if torch.__version__ >= "2":
            raise
        print(f"{name}: {missing}", file=sys.stderr)


def measure_here(name, f):
    if on_device:
        return measure_on_device(name, f)
    times = []
    end = time.perf_counter() + 0.4
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
        if times[-1] > 2:
            break
    times = sorted(times[1:] or times)
    print(f"{name}\t{times[0 if least else len(times) // 2] * 1e3:.4f}", flush=True)


def train(forward, g, inputs):
    forward().backward(g)
    for x in inputs:
        x.grad = None


a, b = torch.randn(16 << 20), torch.randn(16 << 20)
measure("add 16M", lambda: a + b)
measure("exp 16M", lambda: a.exp())
measure("sum 16M", lambda: a.sum())
x, bias, y = torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024, 4096)
measure("bias add 4096x1024", lambda: x + bias)
measure("add transposed 4096x1024", lambda: x + y.t())
measure("transposed copy 4096x1024", lambda: x.t().contiguous())
measure("column sums 4096x1024", lambda: x.sum(0))
measure("row sums 4096x1024", lambda: x.sum(1))
measure("argmax of rows 4096x1024", lambda: x.argmax(1))
measure("row maxima 4096x1024", lambda: x.max(1))
x = torch.randn(1024, 10000)
measure("softmax 1024x10000", lambda: x.softmax(1))
logits, target = torch.randn(700, 10000, requires_grad=True), torch.randint(0, 10000, (700,))
measure("cross entropy 700x10000 fwd+bwd", lambda: train(lambda: F.cross_entropy(logits, target), None, [logits]))
image, g = torch.randn(8, 256, 56, 56, requires_grad=True), torch.randn(8, 256, 56, 56)
measure("ReLU 8x256x56x56 fwd+bwd", lambda: train(lambda: image.relu(), g, [image]))
weight, beta = torch.ones(256, requires_grad=True), torch.zeros(256, requires_grad=True)
mean, var = torch.zeros(256), torch.ones(256)
measure("batch norm 8x256x56x56 fwd+bwd",
        lambda: train(lambda: F.batch_norm(image, mean, var, weight, beta, True), g, [image, weight, beta]))
pooled, pooled_g = torch.randn(8, 64, 112, 112, requires_grad=True), torch.randn(8, 64, 56, 56)
measure("max pool 8x64x112x112 fwd+bwd",
        lambda: train(lambda: F.max_pool2d(pooled, 3, stride=2, padding=1), pooled_g, [pooled]))
small, w = torch.randn(8, 64, 56, 56, requires_grad=True), torch.randn(64, 64, 3, 3, requires_grad=True)
small_g = torch.randn(8, 64, 56, 56)
measure("3x3 convolution 8x64x56x56 fwd+bwd", lambda: train(lambda: F.conv2d(small, w, padding=1), small_g, [small, w]))
table, index, rows = torch.randn(10000, 200, requires_grad=True), torch.randint(0, 10000, (700,)), torch.randn(700, 200)
measure("embedding 10000x200 of 700 fwd+bwd", lambda: train(lambda: F.embedding(index, table), rows, [table]))
lstm, steps, steps_g = torch.nn.LSTM(200, 200, 2), torch.randn(35, 20, 200), torch.randn(35, 20, 200)
measure("LSTM 200x2, 35 steps of 20, fwd+bwd", lambda: train(lambda: lstm(steps)[0], steps_g, list(lstm.parameters())))
p, q = torch.randn(64, 128, 64), torch.randn(64, 64, 128)
measure("bmm 64x128x64x128", lambda: p @ q)
m, n = torch.randn(1024, 1024), torch.randn(1024, 1024)
measure("matmul 1024", lambda: m @ n)
for half in (torch.bfloat16, torch.float16):
    name = str(half).removeprefix("torch.")
    wide, m, n = torch.randn(16 << 20).to(half), torch.randn(1024, 1024).to(half), torch.randn(1024, 1024).to(half)
    measure(f"add 16M {name}", lambda: wide + wide)
    measure(f"sum 16M {name}", lambda: wide.sum())
    measure(f"matmul 1024 {name}", lambda: m @ n)
q, k, v = (torch.randn(1, 8, 1024, 64, requires_grad=True) for _ in range(3))
attention_g = torch.randn(1, 8, 1024, 64)
for causal in (False, True):
    name = f"{'causal ' if causal else ''}attention 8x1024x64 fwd"
    measure(name, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    measure(f"{name}+bwd", lambda: train(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), attention_g, [q, k, v]))
