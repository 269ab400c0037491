"""What single operations are tried on: a function for each family draws the inputs and adds the step(s)."""
import math

import ops
from program import FLOATS

DOMAINS = {  # where plain values lie; special ones lie everywhere
    "sqrt": (0, 3), "rsqrt": (0.2, 3), "log": (0, 3), "log1p": (-0.9, 3), "log2": (0, 3), "log10": (0, 3),
    "asin": (-1, 1), "acos": (-1, 1), "tan": (-1.2, 1.2),
}


NUMBERS = ("float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8")  # all but bool


def text(value):
    return {"True": "true", "False": "false", "None": "none"}.get(repr(value), repr(value))


def dims(values):
    return "[" + ",".join(map(str, values)) + "]"


def refs(numbers):
    return "(" + ",".join(f"%{n}" for n in numbers) + ")"


def without(node, what):
    """Makes 0 of some values of an input; differences.py has the cases that are about them."""
    node.values[:] = [0.0 if what(value) else value for value in node.values]


def unary(d, p):
    op = d.one(*ops.UNARY)
    low, high = DOMAINS.get(op, (-3, 3))
    # differences.py has what these are not tried on.
    kind = d.kind(*{"square": ("plain", "wide"), "elu": ("plain", "wide"), "gelu": ("plain",)}.get(op, ()))
    dtype = d.dtype(*NUMBERS) if op in ("square", "sign") else d.dtype()
    d.plain = d.plain and op != "elu"
    x = d.input(p, d.shape(), dtype, d.chance(0.8), kind, low, high)
    if op in ("sign", "abs"):
        without(p.nodes[-1], math.isnan)
    elif op == "silu":
        without(p.nodes[-1], math.isinf)
    return p.step(op, f"%{x}")


def predicate(d, p):
    return p.step(d.one(*ops.PREDICATES), f"%{d.input(p, d.shape(), d.dtype(), kind=d.kind())}")


def scalar(d, floating=True):
    return text(d.one(True, False, 0, 1, 2, -3, 100, 2, 3) if not floating or d.chance(0.5) else d.one(
        0.5, -1.5, 2.0, 0.0, 1e-4, 6e4, d.number(), math.inf, -math.inf, math.nan))


def operands(d, p, grad=0.8, kind=None, instead={}, itself=True):
    """Two operands of a binary operation, one of them perhaps a number, or, where that may be, both the same one;
    `instead` names dtypes that take the place of others."""
    kind = kind or d.kind()
    one, other = d.pair()
    dtype, second = d.dtype(), d.dtype()
    dtype, second = (instead.get(t, t) for t in (dtype, dtype if d.chance(0.6) else second))
    x = d.input(p, one, dtype, d.chance(grad), kind)
    if d.chance(0.25):
        return f"%{x}", scalar(d)
    y = f"%{x}" if d.chance(0.05) and itself else f"%{d.input(p, other, second, d.chance(grad), kind)}"
    return f"%{x}", y


def binary(d, p):
    op = d.one(*ops.BINARY)
    kind, instead = d.kind(), {}
    # differences.py has what is left out here: powers of bool and second derivatives of the power 0; quotients and
    # powers that overflow on the way; atan2 where squares wrap around, overflow or underflow, and its second derivative at (0, 0).
    if op == "pow":  # nor of 10^18: whether y - 1 is odd depends on its rounding
        kind = d.kind("plain", "ties")
        instead = {"bool": "int64", "uint8": "int64", "float16": "float32", "bfloat16": "float32"}
        d.plain = d.plain and kind == "plain"
    elif op == "div":
        kind = d.kind("plain", "plain", "plain", "ties", "wide", "edges")
        instead = {"float16": "bfloat16"}  # PyTorch's gradients overflow in float16: differences.py
    elif op == "atan2":  # nor its gradient at infinity
        kind = d.kind("plain", "plain", "ties", "wide")
        instead = {"uint8": "float32", "float16": "float32"}
        if kind != "plain":
            instead = dict.fromkeys(("uint8", "int32", "int64", "float16", "bfloat16"), "float32")
        d.plain = d.plain and kind == "plain"
    # Of x / x, what is left of two terms that cancel is rounding, which a gradient may magnify without end.
    x, y = operands(d, p, kind=kind, instead=instead, itself=op not in ("div", "atan2", "pow"))
    if (op == "pow" and y in ("true", "false")) or (op in ("atan2", "pow") and y.endswith("inf")):
        y = "2"  # PyTorch does not take false for 0 in the gradient of pow
    d.plain = d.plain and (op != "pow" or not any(0 in node.values for node in p.inputs()))
    # A number divided by a subnormal: differences.py.
    if d.chance(0.3) and not y.startswith("%") and (op != "div" or kind in ("plain", "ties")):
        x, y = y, x
    return p.step(op, x, y)


def compare(d, p):
    return p.step(d.one(*ops.COMPARE), *operands(d, p, grad=0.2, kind=d.kind("ties", "ties", "special", "plain")))


def mask(d, p, sizes):
    return d.input(p, sizes, "bool")


def ternary(d, p):
    kind, dtype = d.kind(), d.dtype()
    full = d.shape()
    op = d.one("where", "clamp", "masked_fill")
    if op == "clamp" and dtype == "bool":
        dtype = "int64"
    x = d.input(p, full, dtype, True, kind)
    if op == "clamp":
        without(p.nodes[-1], math.isnan)
        bounds = [d.one(None, 0.0, 1.0, -1.0, -0.5, 2.0), d.one(None, 1.0, 2.0, 0.0, 0.5)]
        if bounds == [None, None]:
            bounds[0] = -1.0
        if dtype not in FLOATS:
            bounds = [b if b is None else int(b) for b in bounds]
        return p.step(op, f"%{x}", *map(text, bounds))
    m = mask(d, p, d.broadcastable(full))
    if op == "masked_fill":
        return p.step(op, f"%{x}", f"%{m}", scalar(d, dtype in FLOATS))
    y = scalar(d) if d.chance(0.3) else f"%{d.input(p, d.broadcastable(full), d.dtype(), True, kind)}"
    pair = [f"%{x}", y]
    d.random.shuffle(pair)
    return p.step(op, f"%{m}", *pair)


# ---- sums and their kind
def reduction(d, p):
    op = d.one("sum", "mean", "max", "min", "all", "any", "sum_dims", "mean_dims", "var", "std", "max_dim", "min_dim",
               "argmax", "argmin", "logsumexp", "cumsum", "softmax", "log_softmax")
    if op in ("all", "any"):
        x = d.input(p, d.shape(), d.dtype("float32", "int64", "int32", "bool", "float16"), kind=d.kind())
        return p.step(op, f"%{x}")
    floats_only = op in ("mean", "mean_dims", "var", "std", "logsumexp", "softmax", "log_softmax")
    dtype = d.floating() if floats_only or d.chance(0.5) else d.dtype()
    sizes = d.shape()
    chosen = op in ("max", "min", "all", "any", "max_dim", "min_dim", "argmax", "argmin", "softmax", "log_softmax", "logsumexp")
    kinds = ["plain", "plain", "plain", "ties", "wide"] + ([] if op in ("var", "std") else ["edges"])
    kind = d.kind() if chosen else d.kind(*kinds)
    if op == "std" or 0 in sizes or (op == "var" and not sizes):
        d.plain = False  # second derivatives at equal elements, of one alone, and of means over nothing: differences.py
    # PyTorch's variance of equal elements may be off by roundings; here it is 0. Roundings of many equal terms add up.
    overlapping = op not in ("var", "std") and d.largest < 100
    x = f"%{d.input(p, sizes, dtype, True, kind, overlapping=overlapping)}"
    if op == "logsumexp":
        without(p.nodes[-1], math.isinf)
    keep, dim, along = text(d.chance(0.5)), str(d.dim(len(sizes))), dims(d.dims(len(sizes), 0 if "sum" in op else 1))
    if op in ("sum", "mean", "max", "min", "all", "any"):
        return p.step(op, x)
    if op in ("sum_dims", "mean_dims"):
        return p.step(op, x, along, keep)
    if op in ("var", "std"):
        return p.step(op, x, along, text(d.chance(0.5)), keep)
    if op in ("cumsum", "softmax", "log_softmax"):
        return p.step(op, x, dim)
    return p.step(op, x, dim, keep, results=2 if op in ("max_dim", "min_dim") else 1)


def product(d, p):
    op = d.one("matmul", "matmul", "matmul", "mm", "bmm", "dot", "addmm", "linear")
    dtype = d.floating() if d.chance(0.85) else d.dtype("int64", "int32", "uint8")
    kind = d.kind("plain", "plain", "plain", "plain", "ties", "wide", "edges")
    m, k, n, b = (d.one(0, 1, 2, 3, 5) if d.chance(0.2) else d.one(1, 2, 3, 4) for _ in range(4))
    make = lambda sizes: f"%{d.input(p, sizes, dtype, d.chance(0.85), kind)}"
    if op == "matmul":
        left = d.one([k], [m, k], [b, m, k], [b, 1, m, k], [1, m, k])
        right = d.one([k], [k, n], [b, k, n], [1, k, n])
        return p.step(op, make(left), make(right))
    if op == "linear":
        return p.step(op, make(d.one([k], [m, k], [b, m, k])), make([n, k]), make([n]) if d.chance(0.6) else "none")
    if op == "addmm":
        few = (0.0,) * (kind != "edges") + (1.0, 0.5, -2.0)  # differences.py: gradients at alpha = 0
        number = (lambda: d.one(*few)) if dtype in FLOATS else (lambda: d.one(1, 2, 0))
        return p.step(op, make(d.broadcastable([m, n])), make([m, k]), make([k, n]), number(), number())
    sizes = {"mm": ([m, k], [k, n]), "bmm": ([b, m, k], [b, k, n]), "dot": ([k], [k])}[op]
    return p.step(op, *map(make, sizes))


# ---- by index
def index_input(d, p, sizes, bound, dtype="int64"):
    return f"%{p.input(dtype, sizes, [d.below(max(bound, 1)) for _ in range(math.prod(sizes))])}"


def indexed(d, p):
    op = d.one("gather", "scatter_add", "index_select", "index_add", "embedding")
    dtype = d.floating() if d.chance(0.8) else d.dtype(*NUMBERS) if "add" in op else d.dtype()
    kind = d.kind("plain", "plain", "ties", "edges")
    if op == "embedding":
        rows = d.between(1, 5)
        index = index_input(d, p, d.shape(0, 2), rows, d.one("int64", "int32"))
        weight = d.input(p, [rows, d.between(1, 3)], d.floating(), True, kind)
        return p.step(op, index, f"%{weight}", text(d.one(None, d.between(-rows, rows - 1))))
    sizes = d.shape(1, 3, empty=0)
    rank, dim = len(sizes), d.below(len(sizes))
    x = f"%{d.input(p, sizes, dtype, True, kind)}"
    if op in ("gather", "scatter_add"):
        shape = [d.between(0 if d.chance(0.1) else 1, 4) if i == dim else d.between(1, s) for i, s in enumerate(sizes)]
        index = index_input(d, p, shape, sizes[dim])
        if op == "gather":
            return p.step(op, x, dim, index)
        larger = [s + (d.between(0, 1) if d.chance(0.3) else 0) for s in shape]
        return p.step(op, x, dim - rank, index, f"%{d.input(p, larger, dtype, True, kind)}")
    count = d.between(0, 4)
    index = index_input(d, p, [count], sizes[dim], d.one("int64", "int32"))
    if op == "index_select":
        return p.step(op, x, dim, index)
    source = d.input(p, [count if i == dim else s for i, s in enumerate(sizes)], dtype, True, kind)
    return p.step(op, x, dim, index, f"%{source}")


# ---- views, joins, copies
def factors(d, count):
    """A shape of `count` elements."""
    if count == 0:
        return [0, d.between(1, 3)]
    sizes = []
    while count > 1 and len(sizes) < 3:
        divisor = d.one(*[n for n in range(1, count + 1) if count % n == 0])
        sizes.append(divisor)
        count //= divisor
    return sizes + ([count] if count > 1 else [])


def view_step(d, p, x, sizes, any_strides=False):
    """Some view of tensor x; its number(s). With any_strides, one that exists whatever the strides of x."""
    rank, count = len(sizes), math.prod(sizes)
    op = d.one("reshape", "flatten", "expand", "permute", "transpose", "squeeze", "squeeze_dim", "unsqueeze", "select",
               "narrow", "slice", "split", "chunk", "unbind", "view", "t")
    if rank == 0 and op in ("select", "narrow", "slice", "split", "chunk", "unbind"):
        op = "unsqueeze"
    if op in ("t",) and rank > 2:
        op = "squeeze"
    if any_strides and op in ("reshape", "flatten", "view"):
        op = "unsqueeze"
    dim = d.dim(rank)
    size = sizes[dim] if rank else 1
    if op in ("select", "unbind") and size == 0:
        op = "squeeze"
    ref = f"%{x}"
    if op in ("view", "reshape"):
        target = factors(d, count)
        if target and count and d.chance(0.3):
            target[d.below(len(target))] = -1
        return p.step(op, ref, dims(target))
    if op == "flatten":
        start = d.below(max(rank, 1))
        return p.step(op, ref, start, d.between(start, max(rank, 1) - 1))
    if op == "expand":
        target = [d.between(2, 3) if s == 1 and d.chance(0.7) else d.one(s, -1) for s in sizes]
        return p.step(op, ref, dims(([d.between(1, 2)] if d.chance(0.4) else []) + target))
    if op == "permute":
        order = list(range(rank))
        d.random.shuffle(order)
        return p.step(op, ref, dims(order))
    if op == "transpose":
        return p.step(op, ref, dim, d.dim(rank))
    if op in ("squeeze", "t"):
        return p.step(op, ref)
    if op == "squeeze_dim":
        return p.step(op, ref, dim)
    if op == "unsqueeze":
        return p.step(op, ref, d.between(-rank - 1, rank))
    if op == "select":
        return p.step(op, ref, dim, d.between(-size, size - 1))
    if op == "narrow":
        start = d.between(0, size)
        return p.step(op, ref, dim, start, d.between(0, size - start))
    if op == "slice":
        return p.step(op, ref, dim, d.between(-size - 1, size), d.one(2**63 - 1, d.between(-size - 1, size + 1)), d.between(1, 3))
    if op == "split":
        if d.chance(0.5):
            first = d.between(0, size)
            return p.step(op, ref, dims([first, size - first]), dim, results=2)
        step = d.between(1, max(size, 1))
        return p.step(op, ref, step, dim, results=max(-(-size // step), 1))
    if op == "chunk":
        chunks = d.between(1, 4)
        step = max(-(-size // chunks), 1)
        return p.step(op, ref, chunks, dim, results=max(-(-size // step), 1) if size else chunks)
    return p.step(op, ref, dim, results=size)  # unbind


def as_list(numbers):
    return numbers if isinstance(numbers, list) else [numbers]


def view(d, p):
    sizes = d.shape()
    x = d.input(p, sizes, d.dtype(), True, d.kind("plain", "special"))
    return view_step(d, p, x, sizes)


def join(d, p):
    sizes = d.shape(1, 3)
    kind, dtype = d.kind("plain", "special"), d.dtype()
    count, dim = d.between(1, 3), d.dim(len(sizes))
    if d.chance(0.4):
        parts = [d.input(p, sizes, dtype, d.chance(0.8), kind) for _ in range(count)]
        return p.step("stack", refs(parts), d.between(-len(sizes) - 1, len(sizes)))
    parts = []
    for _ in range(count):
        shape = list(sizes)
        shape[dim] = d.between(0, 3)
        parts.append(d.input(p, shape, dtype if d.chance(0.7) else d.dtype(), d.chance(0.8), kind))
    return p.step("cat", refs(parts), dim)


def copy(d, p):
    op = d.one("contiguous", "clone", "to", "to", "to", "detach")
    dtype, target = d.dtype(), d.dtype()
    # What a float outside of an integer's range becomes is undefined, in PyTorch as in C++.
    if op == "to" and dtype in FLOATS and target not in FLOATS:
        x = d.input(p, d.shape(), dtype, True, "plain", 0, 100)
    else:
        x = d.input(p, d.shape(), dtype, True, d.kind() if op == "to" else d.kind("plain", "special"))
    return p.step(op, f"%{x}", *([target] if op == "to" else []))


def in_place(d, p):
    """Changes a copy, or a leaf without gradient, or a part of one."""
    dtype, kind = d.dtype(), d.kind()
    if dtype in ("float16", "bfloat16"):  # PyTorch rounds the gradient of a wider operand to them
        kind = "plain"
    full = d.shape()
    x = d.input(p, full, dtype, d.chance(0.7), kind, overlapping=False)
    target = p.step("clone", f"%{x}") if p.nodes[-1].grad else x
    sizes = full
    if full and full[0] and d.chance(0.4):
        target, sizes = p.step("select", f"%{target}", 0, d.below(full[0])), full[1:]
    op = d.one("add_", "sub_", "mul_", "div_", "copy_", "fill_", "zero_", "relu_", "clamp_", "masked_fill_")
    if op == "div_" and kind == "special":  # gradients of quotients overflow on the way
        op = "mul_"
    ref = f"%{target}"
    if op in ("add_", "sub_", "mul_", "div_", "copy_"):
        if op != "copy_" and d.chance(0.3):
            other = scalar(d, dtype in FLOATS)
        else:
            second = dtype if d.chance(0.7) or kind == "special" else d.dtype()  # gradients that overflow in one dtype
            out_of_range = op == "copy_" and second in FLOATS and dtype not in FLOATS
            other = f"%{d.input(p, d.broadcastable(sizes), second, d.chance(0.7), 'plain' if out_of_range else kind, *((0, 9) if out_of_range else ()))}"
        alpha = [1 if dtype == "bool" else d.one(1, 1, 2, -1)] if op in ("add_", "sub_") else []
        if alpha and dtype in FLOATS and d.chance(0.3):
            alpha = [0.5]
        if not other.startswith("%") or kind == "special":  # PyTorch multiplies by alpha and adds in one rounding
            alpha = alpha and [1]
        p.step(op, ref, other, *alpha)
    elif op == "fill_":
        p.step(op, ref, scalar(d, dtype in FLOATS))
    elif op == "clamp_":
        without(p.inputs()[0], math.isnan)
        p.step(op, ref, *map(text, d.one((0.0, 1.0), (None, 1.0), (-0.5, None), (0.0, 0.0))))
    elif op == "masked_fill_":
        p.step(op, ref, f"%{mask(d, p, d.broadcastable(sizes))}", scalar(d, dtype in FLOATS))
    else:
        p.step(op, ref)
    # What became of the whole.
    return p.step("mul", f"%{x if not p.inputs()[0].grad else p.inputs()[0].number + 1}", 2)
