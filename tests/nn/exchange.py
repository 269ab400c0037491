#!/usr/bin/env python3
"""Reads what tests/nn/programs/peers.cpp wrote into FOLDER with PyTorch, NumPy and safetensors: python3 exchange.py FOLDER

The weights in model.safetensors and model.npz must give the logits of run.npz to 1e-4, and images.npy be its images.
"""
import importlib.util
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file

folder = pathlib.Path(sys.argv.pop(1))
specification = importlib.util.spec_from_file_location("golden", pathlib.Path(__file__).parent / "golden.py")
golden = importlib.util.module_from_spec(specification)
specification.loader.exec_module(golden)

run = np.load(folder / "run.npz")
assert np.array_equal(np.load(folder / "images.npy"), run["images"])
arrays = {name: torch.from_numpy(array) for name, array in np.load(folder / "model.npz").items()}
for weights in (load_file(folder / "model.safetensors"), arrays):
    model = golden.ResNet(True, (2, 1, 1, 1), 4, 5)
    model.load_state_dict(weights)
    model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(run["images"])).numpy()
    assert np.abs(logits - run["logits"]).max() <= 1e-4 * max(1, np.abs(logits).max()), (logits, run["logits"])
