"""Writes data/pointwise.txt: PyTorch's values of every operation in pointwise.def. Run it with PyTorch installed:
python3 tests/tensor/generate_pointwise_golden.py [FOLDER]. scripts/check_golden.sh compares with another version.

A line: operation, dtype, operands, result; floats as Python prints them (shortest exact form).
"""

import itertools
import pathlib
import sys

import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
own = {
    "logsigmoid": F.logsigmoid, "softplus": F.softplus, "silu": F.silu, "gelu": F.gelu, "elu": F.elu, "relu": torch.relu,
    "mish": F.mish, "selu": F.selu, "softsign": F.softsign, "tanhshrink": F.tanhshrink, "relu6": F.relu6,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "celu": F.celu, "hardshrink": F.hardshrink,
    "softshrink": F.softshrink, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
floats = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 0.3, -0.7, 3.25, 12.0, -12.0, 30.0, -30.0, 1e-8, inf, -inf, nan]
integers = [0, 1, -1, 2, -3, 7, 100]
unary_float = """neg abs sign square relu floor ceil trunc round reciprocal sqrt rsqrt exp expm1 log log1p log2 log10
    sin cos tan asin acos atan sinh cosh tanh erf erfc exp2 asinh acosh atanh frac sigmoid logsigmoid softplus silu gelu elu mish
    gelu_tanh selu softsign tanhshrink relu6 hardsigmoid hardswish celu hardshrink softshrink""".split()
unary_kept = "neg abs sign square relu floor ceil trunc round".split()
predicates = "logical_not isnan isinf isfinite".split()
binary = "add sub mul div pow maximum minimum atan2 hypot remainder floor_divide fmod".split()
integral = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
compares = "eq ne lt le gt ge logical_and logical_or logical_xor".split()


def function(name):
    return own.get(name) or getattr(torch, name)


folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
with open(folder / "pointwise.txt", "w") as f:
    f.write(f"# Made by tests/tensor/generate_pointwise_golden.py with PyTorch {torch.__version__}\n")

    def line(kind, name, dtype, operands, result):
        values = [o.item() for o in operands]
        f.write(f"{kind} {name} {dtype} {' '.join(str(v) for v in values)} {float(result.item())}\n")

    for name in unary_float:
        for v in floats:
            x = torch.tensor(v, dtype=torch.float64)
            line("unary", name, "float64", [x], function(name)(x))
    for name in unary_kept:
        for v in integers:
            x = torch.tensor(v, dtype=torch.int64)
            if hasattr(torch, name):
                line("unary", name, "int64", [x], function(name)(x))
    for name in predicates:
        for v in floats:
            x = torch.tensor(v, dtype=torch.float64)
            line("predicate", name, "float64", [x], function(name)(x))
        for v in integers:
            x = torch.tensor(v, dtype=torch.int64)
            line("predicate", name, "int64", [x], function(name)(x))
    few = [0.0, -0.0, 0.5, -0.5, 1.0, -2.0, 3.0, inf, -inf, nan]
    for kind, names in ("binary", binary), ("compare", compares):
        for name in names:
            for a, b in itertools.product(few, few):
                x, y = torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)
                line(kind, name, "float64", [x, y], function(name)(x, y))
            if name in ("div", "atan2", "hypot"):
                continue
            for a, b in itertools.product(integers, integers):
                if (name == "pow" and b < 0) or (name in ("remainder", "floor_divide", "fmod") and b == 0):
                    continue
                x, y = torch.tensor(a), torch.tensor(b)
                line(kind, name, "int64", [x, y], function(name)(x, y))
    for name in integral:
        for a, b in itertools.product(integers, integers):
            x, y = torch.tensor(a), torch.tensor(b)
            line("binary", name, "int64", [x, y], function(name)(x, y))
