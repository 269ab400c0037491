#!/usr/bin/env python3
"""The cases of bench/cuda in PyTorch, eager, with its defaults (TF32 for convolutions, not for products unless a case says
so). Prints lines "kind, case, value" separated by tabs: milliseconds by CUDA events, medians; host cost in microseconds.
Where PyTorch or a device is missing it says so on standard error and exits 0.
"""
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"PyTorch is not installed here ({error}): no comparison.", file=sys.stderr)
    sys.exit(0)
if not torch.cuda.is_available():
    print("PyTorch sees no CUDA device: no comparison.", file=sys.stderr)
    sys.exit(0)

GPU = torch.device("cuda:0")


def median_ms(work, repeats=10, samples=11):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / repeats)
    return statistics.median(times)


def report(kind, name, value):
    print(f"{kind}\t{name}\t{value:.6g}", flush=True)


def bandwidth(rows, columns):
    x, y = torch.randn(rows, columns, device=GPU), torch.randn(rows, columns, device=GPU)
    out, row, mask = torch.empty_like(x), torch.randn(columns, device=GPU), x > 0
    half_x, half_y, z = x.bfloat16(), y.bfloat16(), x.clone()
    wide = x.view(-1, 32768)
    for name, work in {
        "copy (cudaMemcpyAsync)": lambda: out.copy_(x),
        "add": lambda: x + y,
        "add a number": lambda: x + 1.5,
        "add a row": lambda: x + row,
        "exp": lambda: x.exp(),
        "gelu": lambda: F.gelu(x),
        "relu in place": lambda: z.relu_(),
        "where": lambda: torch.where(mask, x, y),
        "float32 to bfloat16": lambda: x.bfloat16(),
        "add of bfloat16": lambda: half_x + half_y,
        "transposed copy": lambda: x.t().contiguous(),
        "fill": lambda: z.zero_(),
        "sum": lambda: x.sum(),
        "sum of rows": lambda: x.sum(1),
        "sum of columns": lambda: x.sum(0),
        "largest of rows": lambda: x.max(1),
        "softmax of rows": lambda: x.softmax(1),
        "log_softmax of rows": lambda: x.log_softmax(1),
        "softmax of long rows": lambda: wide.softmax(1),
        "normal random numbers": lambda: torch.randn(rows, columns, device=GPU),
    }.items():
        report("bandwidth", name, median_ms(work))


def matmul(n):
    for name, dtype, tf32 in (("float32", torch.float32, False), ("TF32", torch.float32, True), ("bfloat16", torch.bfloat16, False)):
        a, b = torch.randn(n, n, device=GPU).to(dtype), torch.randn(n, n, device=GPU).to(dtype)
        torch.backends.cuda.matmul.allow_tf32 = tf32
        report("matmul", f"{n} {name}", median_ms(lambda: a.matmul(b), 5))
    torch.backends.cuda.matmul.allow_tf32 = False


def host_cost():
    x, y, z = (torch.ones(4, device=GPU) for _ in range(3))
    tracked = torch.ones(4, device=GPU, requires_grad=True)
    for name, work in {
        "add": lambda: x + y,
        "add, tracked": lambda: tracked + y,
        "add in place": lambda: z.add_(y),
        "sum": lambda: x.sum(),
    }.items():
        times = []
        for _ in range(21):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(500):
                work()
            times.append((time.perf_counter() - start) / 500 * 1e6)
        report("host", name, statistics.median(times))


def adam_steps():
    parameters = [torch.randn(64, 65, requires_grad=True) for _ in range(200)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    adam = torch.optim.Adam(parameters, lr=1e-3, fused=True)
    report("training", "Adam step of 200 small tensors", median_ms(adam.step))


class Bottleneck(torch.nn.Module):
    def __init__(self, channels, width, stride, downsample):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(width)
        self.conv3 = torch.nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = torch.nn.BatchNorm2d(4 * width)
        self.relu = torch.nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet50():
    """torchvision's, which may not be installed beside PyTorch."""
    nn = torch.nn
    layers, channels = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            first = block == 0
            shortcut = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) if first else None
            layers.append(Bottleneck(channels, width, stride if first else 1, shortcut))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def measure(name, model, optimizer, x, target, mixed=False):
    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    report("training", name, median_ms(step, 3, 7))
    print(f"{name}: peak {torch.cuda.max_memory_allocated() // 1000000} MB", file=sys.stderr)
    return step


def train_resnet50(batch, channels_last=False, mixed=False):
    order = torch.channels_last if channels_last else torch.contiguous_format
    model = resnet50().to(memory_format=order)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(batch, 3, 224, 224).to(memory_format=order), torch.randint(0, 1000, (batch,))
    name = f"ResNet-50, batch {batch}{', bfloat16' if mixed else ''}{', channels-last' if channels_last else ''}"
    measure(name, model, sgd, images, labels, mixed)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        nn = torch.nn
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(torch.nn.Module):
    def __init__(self, words, context, layers, heads, width):
        super().__init__()
        nn = torch.nn
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.layers(self.tokens(ids) + self.positions(torch.arange(ids.size(1)))))).flatten(0, 1)


def train_gpt():
    model = GPT(50304, 1024, 12, 12, 768)
    measure("GPT, 12 layers of 768, 8x1024, bfloat16", model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True),
            torch.randint(0, 50304, (8, 1024)), torch.randint(0, 50304, (8 * 1024,)), mixed=True)


class LanguageModel(torch.nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table, self.lstm = torch.nn.Embedding(words, width), torch.nn.LSTM(width, width, 2)
        self.head = torch.nn.Linear(width, words)

    def forward(self, ids):
        return self.head(self.lstm(self.table(ids))[0]).flatten(0, 1)


def train_language_model():
    model = LanguageModel(10000, 650)
    measure("LSTM 650x2, 35 steps of 20, 10,000 words", model, torch.optim.SGD(model.parameters(), lr=1e-3),
            torch.randint(0, 10000, (35, 20)), torch.randint(0, 10000, (35 * 20,)))


def train_small_network():
    nn = torch.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    name = "MLP 784-256-128-10, batch 64"
    with torch.cuda.stream(torch.cuda.Stream()):
        step = measure(name, model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.rand(64, 784),
                       torch.randint(0, 10, (64,)))
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    report("training", f"{name}, recorded", median_ms(graph.replay, 3, 7))


print(f"device\t{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}\t0")
with torch.no_grad():
    bandwidth(65536, 1024)
    for size in (1024, 4096, 8192):
        matmul(size)
host_cost()
torch.set_default_device(GPU)
adam_steps()
train_resnet50(64)
train_resnet50(64, channels_last=True)
train_resnet50(64, channels_last=True, mixed=True)
train_gpt()
train_language_model()
train_small_network()
