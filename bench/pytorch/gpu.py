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
    parameters = [torch.randn(64, 65, device=GPU, requires_grad=True) for _ in range(200)]
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


def train_resnet50(batch):
    model = resnet50().to(GPU)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images, labels = torch.randn(batch, 3, 224, 224, device=GPU), torch.randint(0, 1000, (batch,), device=GPU)

    def step():
        sgd.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        sgd.step()

    report("training", f"ResNet-50, batch {batch}", median_ms(step, 3, 7))


print(f"device\t{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}\t0")
with torch.no_grad():
    bandwidth(65536, 1024)
    for size in (1024, 4096, 8192):
        matmul(size)
host_cost()
adam_steps()
train_resnet50(64)
