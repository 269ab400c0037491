#!/usr/bin/env python3
"""Writes tests/nn/data/summary.tfevents: what torch.utils.tensorboard.SummaryWriter writes, less its first record (the time of its making).

Run it with a Python that has PyTorch and tensorboard: python3 tests/nn/golden_summary.py [FOLDER].
"""
import pathlib
import struct
import sys
import tempfile

import torch
from torch.utils.tensorboard import SummaryWriter

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data")
with tempfile.TemporaryDirectory() as scratch:
    writer = SummaryWriter(scratch)
    writer.add_scalar("loss/train", 0.1, 7, walltime=1700000000.25)
    writer.add_scalar("loss/train", float("inf"), 10**12, walltime=1700000001)
    writer.add_text("sample", "to be or *not*", 300, walltime=1700000002)
    writer.add_histogram("weights", torch.tensor([-2.5, -0.25, 0.0, 0.25, 0.25, 3.0]), 8, walltime=1700000003)
    writer.add_histogram("above", torch.tensor([1.0, 4.0]), 9, walltime=1700000004)
    writer.close()
    records = next(pathlib.Path(scratch).iterdir()).read_bytes()
(length,) = struct.unpack("<Q", records[:8])
(folder / "summary.tfevents").write_bytes(records[8 + 4 + length + 4:])
