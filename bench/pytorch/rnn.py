#!/usr/bin/env python3
"""The language-model example in PyTorch RPC, for comparison: a parameter server and a trainer, two processes here.

    python3 bench/pytorch/rnn.py --seconds 10

The program is PyTorch's RPC tutorial (pytorch/examples, distributed/rpc/rnn/main.py) with the changes that
examples/apps/language_model makes too: targets are words of the vocabulary, the corpus is the same kind of random language,
the state is detached once per iteration. Settings: PyTorch's best on one machine (settings.py). Prints a summary whose
first words are those of examples/apps/language_model. Where PyTorch is not installed it says so and exits 0.
"""
import argparse
import os
import socket
import sys
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
    import torch.optim as optim
    from torch.distributed.optim import DistributedOptimizer
    from torch.distributed.rpc import RRef
except ImportError as error:
    print(f"PyTorch is not installed here ({error}): no comparison.")
    sys.exit(0)


def _call_method(method, rref, *args, **kwargs):
    return method(rref.local_value(), *args, **kwargs)


def _remote_method(method, rref, *args, **kwargs):
    return rpc.rpc_sync(rref.owner(), _call_method, args=[method, rref] + list(args), kwargs=kwargs)


def _parameter_rrefs(module):
    return [RRef(param) for param in module.parameters()]


class EmbeddingTable(nn.Module):
    def __init__(self, ntoken, ninp, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, input):
        return self.drop(self.encoder(input))


class Decoder(nn.Module):
    def __init__(self, ntoken, nhid, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, output):
        return self.decoder(self.drop(output)).flatten(0, 1)


class RNNModel(nn.Module):
    def __init__(self, ps, ntoken, ninp, nhid, nlayers, dropout):
        super().__init__()
        self.emb_table_rref = rpc.remote(ps, EmbeddingTable, args=(ntoken, ninp, dropout))
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder_rref = rpc.remote(ps, Decoder, args=(ntoken, nhid, dropout))

    def forward(self, input, hidden):
        emb = _remote_method(EmbeddingTable.forward, self.emb_table_rref, input)
        output, hidden = self.rnn(emb, hidden)
        return _remote_method(Decoder.forward, self.decoder_rref, output), hidden

    def parameter_rrefs(self):
        params = _remote_method(_parameter_rrefs, self.emb_table_rref)
        params.extend(_parameter_rrefs(self.rnn))
        params.extend(_remote_method(_parameter_rrefs, self.decoder_rref))
        return params


def make_corpus(args):
    """As examples/apps/language_model/corpus.cpp, from PyTorch's random numbers."""
    frequent = lambda: int(torch.rand(()).item() ** 2 * args.ntoken)
    successor = [frequent() for _ in range(args.ntoken)]
    text, word = [], 0
    for _ in range(args.tokens):
        text.append(word)
        word = successor[word] if torch.rand(()).item() < 0.8 else frequent()
    steps = args.tokens // args.batch
    columns = torch.tensor(text[:steps * args.batch]).view(args.batch, steps).t().contiguous()
    return [(columns[at:at + args.bptt], columns[at + 1:at + 1 + args.bptt].reshape(-1))
            for at in range(0, steps - args.bptt, args.bptt)]


def run_trainer(args):
    corpus = make_corpus(args)
    model = RNNModel("ps", args.ntoken, args.ninp, args.nhid, args.nlayers, args.dropout)
    opt = DistributedOptimizer(optim.SGD, model.parameter_rrefs(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    start = time.perf_counter()
    out_of_time = lambda: time.perf_counter() - start >= args.seconds
    iterations, first, last = 0, None, None
    for epoch in range(args.epochs):
        if out_of_time():
            break
        hidden = (torch.zeros(args.nlayers, args.batch, args.nhid), torch.zeros(args.nlayers, args.batch, args.nhid))
        losses = []
        for data, target in corpus:
            if out_of_time():
                break
            with dist_autograd.context() as context_id:
                hidden[0].detach_()
                hidden[1].detach_()
                output, hidden = model(data, hidden)
                loss = criterion(output, target)
                dist_autograd.backward(context_id, [loss])
                opt.step(context_id)
            losses.append(loss.item())
            iterations += 1
        last = sum(losses) / len(losses)
        first = last if first is None else first
        print(f"Training epoch {epoch}\tLoss: {last:.4f}", flush=True)
    seconds = time.perf_counter() - start
    print(f"\n  iterations/s        {iterations / seconds:.4g}")
    print(f"  loss                {first:.4f} in the first epoch, {last:.4f} in the last")


def run_worker(rank, args, port):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed + rank)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=16, init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc("ps" if rank == 0 else "trainer", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        run_trainer(args)
    rpc.shutdown()


def main():
    parser = argparse.ArgumentParser(description="The tutorial's RNN over PyTorch RPC, for comparison with examples/apps/language_model")
    for flag, default in (("batch", 5), ("bptt", 5), ("ntoken", 10), ("ninp", 2), ("nhid", 3), ("nlayers", 4),
                          ("epochs", 10), ("tokens", 10_000), ("seed", 1)):
        parser.add_argument(f"--{flag}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=1, help="of each of the two processes")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=60, help="stop after so many seconds")
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(f"PyTorch {torch.__version__}, {os.cpu_count()} cores, "
          f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')}", flush=True)
    mp.spawn(run_worker, args=(args, port), nprocs=2, join=True)


if __name__ == "__main__":
    main()
