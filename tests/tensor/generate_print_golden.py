"""Writes data/print.txt: how PyTorch prints the tensors that print_test.cpp builds. Run it with PyTorch installed:
python3 tests/tensor/generate_print_golden.py [FOLDER]. scripts/check_golden.sh compares with another version.
"""

import pathlib
import sys

import torch

inf, nan = float("inf"), float("nan")
cases = {
    "scalar": torch.tensor(3.5),
    "scalar_int": torch.tensor(-7),
    "whole": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "fractions": torch.tensor([[1.5, -2.25], [0.125, 1000.0]]),
    "sci_ratio": torch.tensor([0.001, 1234.5]),
    "sci_small": torch.tensor([0.00001, 0.5]),
    "sci_large": torch.tensor([1e9, 2e9]),
    "whole_ratio": torch.tensor([1.0, 5000.0]),
    "zeros": torch.zeros(2, 3),
    "negative_zero": torch.tensor([-0.0, 1.0]),
    "nonfinite": torch.tensor([inf, -inf, nan, 1.0]),
    "nonfinite_fraction": torch.tensor([inf, -inf, nan, 1.25]),
    "only_nan": torch.tensor([nan, nan]),
    "double": torch.tensor([0.1, 0.2], dtype=torch.float64),
    "half": torch.tensor([0.1, 2.0], dtype=torch.float16),
    "bfloat16": torch.tensor([0.1, 2.0], dtype=torch.bfloat16),
    "int64": torch.tensor([1, -20, 300]),
    "int32": torch.tensor([[1, 2], [3, 4]], dtype=torch.int32),
    "uint8": torch.tensor([0, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False]),
    "empty": torch.zeros(0),
    "empty_2d": torch.zeros(2, 0),
    "empty_int": torch.zeros(0, dtype=torch.int64),
    "one_element": torch.zeros(1, 1, 1),
    "cube": torch.arange(24).reshape(2, 3, 4),
    "hypercube": torch.arange(16.0).reshape(2, 2, 2, 2) / 8,
    "wrapped": torch.arange(40.0) / 8,
    "wrapped_int": torch.arange(100),
    "exactly_1000": torch.arange(1000).reshape(10, 100),
    "summarised": torch.arange(1001),
    "summarised_2d": torch.arange(2000.0).reshape(40, 50),
    "summarised_tall": torch.arange(1200.0).reshape(300, 4) / 4,
    "summarised_wide": torch.arange(1200).reshape(4, 300),
    "summarised_3d": torch.arange(2000).reshape(20, 10, 10),
    "hidden_outlier": torch.cat([torch.ones(500), torch.tensor([12345678.9]), torch.ones(600)]),
    "transposed": torch.arange(6).reshape(2, 3).t(),
    "expanded": torch.tensor([1.5]).expand(3),
    "long_suffix": (torch.arange(8, dtype=torch.float64) + 0.5) * 100,
}
folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
with open(folder / "print.txt", "w") as f:
    f.write(f"# Made by tests/tensor/generate_print_golden.py with PyTorch {torch.__version__}\n")
    for name, value in cases.items():
        f.write(f"== {name}\n{str(value).replace('torch.', '')}\n")
    # Of set_printoptions: the options, and a tensor of the above.
    for name, tensor, options in [
        ("two_digits", "fractions", {"precision": 2}), ("no_digits", "fractions", {"precision": 0}),
        ("always_scientific", "fractions", {"sci_mode": True}), ("always_scientific_whole", "whole", {"sci_mode": True}),
        ("never_scientific", "sci_ratio", {"sci_mode": False}), ("small_threshold", "cube", {"threshold": 10, "edgeitems": 1}),
        ("more_edges", "summarised", {"edgeitems": 5}), ("narrow", "wrapped_int", {"linewidth": 40}),
        ("wide", "wrapped", {"linewidth": 120, "precision": 1}), ("narrow_suffix", "double", {"linewidth": 20})]:
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**options)
        f.write(f"== with_{name}\n{str(cases[tensor]).replace('torch.', '')}\n")
