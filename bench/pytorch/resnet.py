#!/usr/bin/env python3
"""What bench/nn/resnet.cpp does, with PyTorch: python3 bench/pytorch/resnet.py [--threads N] [--batch N] [--size N] [--rounds N] [--channels-last 1]"""
import argparse
import time

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

parser = argparse.ArgumentParser()
for name, default in (("threads", 1), ("batch", 8), ("size", 128), ("rounds", 5), ("channels-last", 0)):
    parser.add_argument(f"--{name}", type=int, default=default)
args = parser.parse_args()
torch.set_num_threads(args.threads)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.convs = nn.ModuleList([nn.Conv2d(inputs, width, 1, bias=False), nn.Conv2d(width, width, 3, stride, 1, bias=False),
                                    nn.Conv2d(width, outputs, 1, bias=False)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(outputs)])
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            y = norm(conv(y))
            if i < 2:
                y = torch.relu_(y)
        y += self.shortcut(x) if self.shortcut else x
        return torch.relu_(y)

    def fuse(self):
        self.convs = nn.ModuleList([fuse_conv_bn_eval(c, n) for c, n in zip(self.convs, self.norms)])
        self.norms = nn.ModuleList([nn.Identity() for _ in self.norms])
        if self.shortcut:
            self.shortcut = nn.Sequential(fuse_conv_bn_eval(*self.shortcut))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(channels, 64 << stage, 2 if i == 0 and stage else 1))
            channels = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def measure(name, call):
    call()
    best = min(timed(call) for _ in range(args.rounds))
    print(f"{name}\t{best:.1f}", flush=True)


def memory(field):
    """Of /proc/self/status, in MiB."""
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field + ":")) / 1024


def timed(call):
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


before = memory("VmRSS")
model = resnet50()
sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, target = torch.randn(args.batch, 3, args.size, args.size), torch.zeros(args.batch, dtype=torch.int64)
if args.channels_last:
    x, model = x.to(memory_format=torch.channels_last), model.to(memory_format=torch.channels_last)


def step():
    sgd.zero_grad()
    nn.functional.cross_entropy(model(x), target).backward()
    sgd.step()


measure("train", step)
print(f"train, peak MiB\t{memory('VmHWM') - before:.0f}", flush=True)
model.eval()
with torch.no_grad():
    measure("eval", lambda: model(x))
    for block in model:
        if isinstance(block, Bottleneck):
            block.fuse()
    model[0], model[1] = fuse_conv_bn_eval(model[0], model[1]), nn.Identity()
    measure("eval, fused", lambda: model(x))
