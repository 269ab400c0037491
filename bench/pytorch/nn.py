#!/usr/bin/env python3
"""What bench/nn/steps.cpp does, with PyTorch at its best: fused optimizers where it has them, attention in one operation.

python3 bench/pytorch/nn.py [--threads N] [--seconds S] [--clock processor]: lines "name <tab> steps/s".
"""
import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=0.4)
parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)
now = time.process_time if args.clock == "processor" else time.perf_counter


def fused(optimizer, parameters, **options):
    parameters = list(parameters)  # a failed try would leave a generator empty
    try:
        return optimizer(parameters, fused=True, **options)
    except (RuntimeError, TypeError, ValueError):  # older than fused steps on the CPU
        return optimizer(parameters, **options)


def train(name, model, optimizer, x, target):
    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        optimizer.step()

    start = now()
    while now() - start < args.seconds / 4:
        step()
    times = []
    start = now()
    while len(times) < 5 or now() - start < args.seconds:
        before = now()
        step()
        times.append(now() - before)
    print(f"{name}\t{1 / sorted(times)[len(times) // 2]:.1f}", flush=True)


def mlp(name, inputs, hidden, classes, batch):
    model = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden // 2), nn.ReLU(),
                          nn.Linear(hidden // 2, classes))
    train(name, model, fused(torch.optim.Adam, model.parameters(), lr=1e-6), torch.rand(batch, inputs),
          torch.randint(0, classes, (batch,)))


class CharLSTM(nn.Module):
    def __init__(self, characters, embedding, hidden, layers):
        super().__init__()
        self.table, self.head = nn.Embedding(characters, embedding), nn.Linear(hidden, characters)
        self.lstm = nn.LSTM(embedding, hidden, layers)

    def forward(self, ids):
        return self.head(self.lstm(self.table(ids))[0]).flatten(0, 1)


def char_lstm(name, characters, hidden, layers, steps, batch):
    model = CharLSTM(characters, hidden // 2, hidden, layers)
    train(name, model, fused(torch.optim.SGD, model.parameters(), lr=1e-5),
          torch.randint(0, characters, (steps, batch)), torch.randint(0, characters, (steps * batch,)))


def cnn(name, side, channels, batch):
    model = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(2 * channels * (side // 4) ** 2, 10))
    train(name, model, fused(torch.optim.SGD, model.parameters(), lr=1e-5, momentum=0.9),
          torch.rand(batch, 1, side, side), torch.randint(0, 10, (batch,)))


def causal_attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    hidden = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).triu(1)  # PyTorch 1.13 has no such operation
    return ((q @ k.transpose(-2, -1)) * q.size(-1) ** -0.5).masked_fill(hidden, float("-inf")).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        x = x + self.out(causal_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, characters, context, layers, heads, width):
        super().__init__()
        self.characters, self.positions = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.layers(self.characters(ids) + self.positions(torch.arange(ids.size(1)))))).flatten(0, 1)


def gpt(name, context, layers, heads, width, batch):
    model = GPT(65, context, layers, heads, width)
    train(name, model, fused(torch.optim.AdamW, model.parameters(), lr=1e-6), torch.randint(0, 65, (batch, context)),
          torch.randint(0, 65, (batch * context,)))


mlp("MLP", 784, 256, 10, 64)
mlp("MLP, tiny", 4, 8, 2, 1)
char_lstm("char-LSTM", 65, 128, 1, 32, 16)
char_lstm("char-LSTM, tiny", 10, 4, 1, 5, 1)
cnn("CNN", 28, 16, 32)
cnn("CNN, tiny", 8, 2, 1)
gpt("GPT", 64, 5, 4, 128, 8)
gpt("GPT, tiny", 4, 1, 1, 4, 1)
