"""Writes data/promotion.txt: PyTorch's result dtypes. Run it with PyTorch installed:
python3 tests/tensor/generate_promotion_golden.py [FOLDER]. scripts/check_golden.sh compares with another version.

Each line: two operands and what adding them gives. An operand is a dtype ("float32": a tensor with dimensions,
"float32.0d": without) or a Python number ("bool", "int", "float" after "number:").
"""

import itertools
import pathlib
import sys

import torch

dtypes = ["float32", "float64", "int64", "int32", "uint8", "bool", "float16", "bfloat16"]
numbers = {"number:bool": True, "number:int": 1, "number:float": 1.0}


def operand(name):
    if name in numbers:
        return numbers[name]
    dtype, _, zero = name.partition(".")
    return torch.ones([] if zero else [2], dtype=getattr(torch, dtype))


names = dtypes + [d + ".0d" for d in dtypes]
folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
with open(folder / "promotion.txt", "w") as f:
    f.write(f"# Made by tests/tensor/generate_promotion_golden.py with PyTorch {torch.__version__}\n")
    for a, b in itertools.product(names, names + list(numbers)):
        f.write(f"{a} {b} {str(torch.result_type(operand(a), operand(b)))[6:]}\n")
