#!/usr/bin/env python3
"""The pipeline example in PyTorch RPC, for comparison: a master and two workers, processes of this machine.

    python3 bench/pytorch/pipeline.py --micro-batches 1 2 4 8

The program is PyTorch's tutorial "Distributed pipeline parallelism using RPC" (pytorch/examples, distributed/rpc/pipeline)
on CPUs, with the flags of examples/apps/resnet50_pipeline: micro-batches are counted, where the tutorial's variable is their size.
ResNet-50 is written out below, as torchvision may be missing; --tiny makes it narrow.

Settings: PyTorch's best on one machine (settings.py), but for the intra-op threads (--threads, default: as many as cores; half
of them are faster with many micro-batches, slower with one). Where PyTorch is not installed it says so and exits 0.
"""
import argparse
import os
import socket
import sys
import threading
import time

import settings

if __name__ == "__main__":
    settings.use_best()

try:
    import torch
    import torch.distributed.autograd as dist_autograd
    import torch.distributed.rpc as rpc
    import torch.multiprocessing as mp
    import torch.nn as nn
    import torch.nn.functional as F
    import torch.optim as optim
    from torch.distributed.optim import DistributedOptimizer
    from torch.distributed.rpc import RRef
except ImportError as error:
    print(f"PyTorch is not installed here ({error}): no comparison.")
    sys.exit(0)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, in_channels, width, stride):
        super().__init__()
        out = width * self.expansion
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or in_channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(in_channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


def make_layer(in_channels, width, blocks, stride=1):
    layers = [Bottleneck(in_channels, width, stride)]
    layers += [Bottleneck(width * Bottleneck.expansion, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(*layers)


class ResNetShard(nn.Module):
    def __init__(self, seq):
        super().__init__()
        self._lock = threading.Lock()
        self.seq = seq
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x_rref):
        x = x_rref.to_here()
        with self._lock:
            return self.seq(x)

    def parameter_rrefs(self):
        return [RRef(p) for p in self.parameters()]


class ResNetShard1(ResNetShard):
    def __init__(self, base, blocks, classes):
        super().__init__(nn.Sequential(
            nn.Conv2d(3, base, 7, 2, 3, bias=False), nn.BatchNorm2d(base), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
            make_layer(base, base, blocks[0]), make_layer(4 * base, 2 * base, blocks[1], 2)))


class ResNetShard2(ResNetShard):
    def __init__(self, base, blocks, classes):
        super().__init__(nn.Sequential(
            make_layer(8 * base, 4 * base, blocks[2], 2), make_layer(16 * base, 8 * base, blocks[3], 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32 * base, classes)))


class DistResNet50(nn.Module):
    def __init__(self, micro_batches, workers, *network):
        super().__init__()
        self.micro_batches = micro_batches
        self.p1_rref = rpc.remote(workers[0], ResNetShard1, args=network)
        self.p2_rref = rpc.remote(workers[1], ResNetShard2, args=network)

    def forward(self, xs):
        out_futures = []
        for x in torch.tensor_split(xs, self.micro_batches):
            y_rref = self.p1_rref.remote().forward(RRef(x))
            out_futures.append(self.p2_rref.rpc_async().forward(y_rref))
        return torch.cat(torch.futures.wait_all(out_futures))

    def parameter_rrefs(self):
        return (self.p1_rref.remote().parameter_rrefs().to_here() + self.p2_rref.remote().parameter_rrefs().to_here())


def run_master(args, micro_batches):
    model = DistResNet50(micro_batches, ["worker1", "worker2"], args.base, args.blocks, args.classes)
    loss_fn = nn.MSELoss()
    opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=0.05)
    one_hot_indices = torch.randint(0, args.classes, (args.batch_size, 1))
    start = time.perf_counter()
    for i in range(args.batches):
        print(f"Processing batch {i}", flush=True)
        inputs = torch.randn(args.batch_size, 3, args.image, args.image)
        labels = torch.zeros(args.batch_size, args.classes).scatter_(1, one_hot_indices, 1)
        with dist_autograd.context() as context_id:
            outputs = model(inputs)
            dist_autograd.backward(context_id, [loss_fn(outputs, labels)])
            opt.step(context_id)
    seconds = time.perf_counter() - start
    images = args.batches * args.batch_size
    print(f"trained on {images} images in {seconds:.2f} s, {images / seconds:.1f} images/s", flush=True)


def run_worker(rank, args, micro_batches, port):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed + rank)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=64, rpc_timeout=600, init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc("master" if rank == 0 else f"worker{rank}", rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        run_master(args, micro_batches)
    rpc.shutdown()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description="The pipeline over PyTorch RPC, for comparison with examples/apps/resnet50_pipeline")
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N")
    parser.add_argument("--batch-size", type=int, metavar="N")
    parser.add_argument("--batches", type=int, default=3, metavar="N")
    parser.add_argument("--image", type=int, metavar="N", help="height and width")
    parser.add_argument("--classes", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, metavar="N", help="of each shard")
    parser.add_argument("--tiny", action="store_true", help="a narrow network on small images")
    args = parser.parse_args()
    args.base, args.blocks = (8, (1, 1, 1, 1)) if args.tiny else (64, (3, 4, 6, 3))
    for name, full, tiny in (("batch_size", 120, 16), ("image", 128, 32), ("classes", 1000, 10)):
        if getattr(args, name) is None:
            setattr(args, name, tiny if args.tiny else full)
    print(f"PyTorch {torch.__version__}, {args.threads} threads a shard, {os.cpu_count()} cores, "
          f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')}", flush=True)
    for micro_batches in args.micro_batches:
        start = time.perf_counter()
        mp.spawn(run_worker, args=(args, micro_batches, free_port()), nprocs=3, join=True)
        print(f"number of splits = {micro_batches}, execution time = {time.perf_counter() - start:.2f}", flush=True)


if __name__ == "__main__":
    main()
