"""As cases.py, for operations that choose, move, sort and multiply elements."""
import math

from cases import NUMBERS, dims, index_input, refs, text
from program import FLOATS


def distinct(d, p, sizes, dtype, grad=True, special=0.0):
    """No two elements are equal: which of several is meant is nobody's business. Perhaps a NaN or an infinity."""
    count = math.prod(sizes)
    values = [v * 0.5 if dtype in FLOATS else v for v in range(-(count // 2), count - count // 2)]
    if dtype == "uint8":
        values = list(range(count))
    d.random.shuffle(values)
    if dtype in FLOATS and count and d.chance(special):
        values[d.below(count)] = d.one(math.nan, math.inf, -math.inf)
        d.plain = False
    return p.input(dtype, sizes, values, grad and dtype in FLOATS)


def number(d):
    """A dtype that has distinct numbers."""
    return d.one("float32", "float32", "float64", "float64", "float16", "bfloat16", "int64", "int32", "uint8")


# ---- indexing
def index_tensor(d, p, shape, size, distinct_ones):
    count = math.prod(shape)
    values = d.random.sample(range(-size, 0), count) if distinct_ones else [d.between(-size, size - 1) for _ in range(count)]
    return f"%{p.input(d.one('int64', 'int64', 'int32'), shape, values)}"


def brackets(d, p, sizes, once):
    """Indices of a tensor of `sizes`; if `once`, no place is named twice."""
    shape = d.one([], [2], [3], [2, 2], [1]) if not once else None
    parts, at, had_dots = [], 0, False
    while True:
        if d.chance(0.12) and len(parts) < 6:
            parts.append("none")
        if not had_dots and d.chance(0.15):
            had_dots, left = True, d.between(at, len(sizes))
            parts.append("...")
            at = left
            rest = len(sizes) - left
            while at < len(sizes):
                parts.append(d.one(":", str(d.between(-sizes[at], sizes[at] - 1)) if sizes[at] else ":"))
                at += 1
            break
        if at == len(sizes) or d.chance(0.15):
            break
        size = sizes[at]
        what = d.one("number", "slice", "slice", "tensor", "tensor", "mask")
        if what == "number" and size:
            parts.append(str(d.between(-size, size - 1)))
        elif what == "tensor" and size and not (once and any(part.startswith("%") for part in parts)):
            of = [d.between(0, size)] if once else d.broadcastable(shape) if d.chance(0.4) else shape
            parts.append(index_tensor(d, p, of, size, once))
        elif what == "mask" and not any(part.startswith("%") for part in parts) and (once or shape == [1]):
            width = d.between(1, min(2, len(sizes) - at))
            count = math.prod(sizes[at:at + width])
            parts.append(f"%{p.input('bool', sizes[at:at + width], [d.below(2) for _ in range(count)])}")
            at += width
            if not once:
                break
            continue
        else:
            bound = lambda: d.one("", str(d.between(-size - 1, size + 1)))
            parts.append(f"{bound()}:{bound()}" + d.one("", "", ":2", ":3"))
        at += 1
    return "{" + ";".join(parts) + "}"


def indexing(d, p):
    op = d.one("index", "index", "index", "index_put", "index_put", "index_put", "masked_select", "nonzero", "scatter",
               "take_along_dim", "one_hot")
    dtype, kind = d.dtype(), d.kind("plain", "ties", "special")
    sizes = d.shape(1, 4)
    if op == "index":
        x = d.input(p, sizes, dtype, True, kind)
        return p.step(op, f"%{x}", brackets(d, p, sizes, d.chance(0.4)))
    if op == "index_put":
        accumulate = d.chance(0.4) and dtype != "bool"
        if accumulate and dtype in ("float16", "bfloat16"):
            dtype = "float32"
        x = d.input(p, sizes, dtype, True, "plain" if accumulate else kind)
        where = brackets(d, p, sizes, not accumulate)
        try:  # how many are chosen
            import torch
            env = p.run()
            import program
            chosen = list(torch.zeros(sizes)[program.indices(where, env)].shape)
        except IndexError:
            raise ValueError("index")
        y = d.input(p, d.broadcastable(chosen), dtype, True, "plain" if accumulate else kind)
        return p.step(op, f"%{x}", where, f"%{y}", text(accumulate))
    if op == "masked_select":
        x = d.input(p, sizes, dtype, True, kind)
        return p.step(op, f"%{x}", f"%{d.input(p, d.broadcastable(sizes), 'bool')}")
    if op == "nonzero":
        return p.step(op, f"%{d.input(p, d.shape(), dtype, False, d.kind('ties', 'special'))}")
    if op == "one_hot":
        classes = d.between(1, 5)
        return p.step(op, index_input(d, p, d.shape(0, 3), classes), classes)
    sizes = d.shape(1, 3, empty=0)
    dim = d.below(len(sizes))
    if op == "take_along_dim":
        shape = [d.between(1, 4) if i == dim else d.one(1, s) for i, s in enumerate(sizes)]
        x = d.input(p, [s if i == dim else d.one(1, s) if shape[i] == s else s for i, s in enumerate(sizes)], dtype, True, kind)
        return p.step(op, f"%{x}", index_input(d, p, shape, sizes[dim]), dim - d.one(0, len(sizes)))
    shape = [d.between(0, s) if i == dim else d.between(1, s) for i, s in enumerate(sizes)]
    lines = math.prod(shape[:dim] + shape[dim + 1:])
    drawn = [d.random.sample(range(sizes[dim]), shape[dim]) for _ in range(lines)]
    after = math.prod(shape[dim + 1:])
    index = [drawn[o * after + i][k] for o in range(lines // max(after, 1)) for k in range(shape[dim]) for i in range(after)]
    x, places = d.input(p, sizes, dtype, True, kind), p.input("int64", shape, index)
    if d.chance(0.3):
        return p.step(op, f"%{x}", dim, f"%{places}", 2)
    larger = [s + (d.between(0, 1) if d.chance(0.3) else 0) for s in shape]
    return p.step(op, f"%{x}", dim, f"%{places}", f"%{d.input(p, larger, dtype, True, kind)}")


# ---- moving
def rearranged(d, p):
    op = d.one("flip", "roll", "roll_all", "repeat", "repeat", "tile", "repeat_interleave", "pad", "pad", "pad", "tril",
               "triu", "diag", "diagonal", "meshgrid", "movedim")
    dtype, kind = d.dtype(), d.kind("plain", "special")
    make = lambda sizes: f"%{d.input(p, sizes, dtype, True, kind)}"
    if op == "meshgrid":
        vectors = [d.input(p, d.one([], [d.between(0, 3)], [d.between(1, 3)]), dtype, True, kind) for _ in range(d.between(1, 3))]
        return p.step(op, refs(vectors), results=len(vectors))
    if op == "diag":
        sizes = d.one([d.between(0, 4)], [d.between(0, 4), d.between(0, 4)])
        return p.step(op, make(sizes), d.between(-5, 5))
    if op in ("tril", "triu", "diagonal"):
        sizes = d.shape(2, 4)
        x, offset = make(sizes), d.between(-4, 4)
        if op != "diagonal":
            return p.step(op, x, offset)
        one = d.below(len(sizes))
        other = (one + d.between(1, len(sizes) - 1)) % len(sizes)
        return p.step(op, x, offset, one - d.one(0, len(sizes)), other)
    if op == "repeat":
        sizes = d.shape(0, 5)
        return p.step(op, make(sizes), dims([d.one(0, 1, 1, 2, 3) if d.chance(0.5) else 2 for _ in range(len(sizes) + d.between(0, 1))]))
    if op == "tile":
        sizes = d.shape(0, 5)
        return p.step(op, make(sizes), dims([d.between(1, 2) for _ in range(d.between(0, len(sizes) + 1))]))
    sizes = d.shape(0 if op in ("flip", "roll_all", "movedim") else 1, 4)
    x, rank = make(sizes), len(sizes)
    if op == "flip":
        return p.step(op, x, dims(d.dims(rank, 0)) if rank else "[]")
    if op == "roll_all":
        return p.step(op, x, d.between(-9, 9))
    if op == "movedim":
        return p.step(op, x, d.dim(rank), d.dim(rank))
    if op == "roll":
        return p.step(op, x, d.between(-9, 9), d.dim(rank))
    if op == "repeat_interleave":
        return p.step(op, x, d.between(0, 3), d.dim(rank))
    # PyTorch pads the last one to three dimensions of two more at most, where it is not with a number.
    mode = d.one("constant", "constant", "reflect", "replicate", "circular")
    if mode == "constant":
        count = d.between(0, rank)
        low = lambda i: -min(2, sizes[rank - 1 - i])
        pads = [d.between(low(i) // 2, 3) for i in range(count) for _ in range(2)]
        return p.step("pad", x, dims(pads), mode, d.one(0, 1, 2) if dtype not in FLOATS or dtype == "bool" else d.one(0.5, 0, -2))
    count = d.between(1, min(3, max(1, rank - 1)))
    most = {"reflect": lambda s: max(s - 1, 0), "replicate": lambda s: 3, "circular": lambda s: s}[mode]
    pads = [d.between(0, most(sizes[rank - 1 - i])) for i in range(count) for _ in range(2)]
    return p.step("pad", x, dims(pads), mode, 0)


# ---- sorting and counting
def sorting(d, p):
    op = d.one("sort", "sort", "topk", "kthvalue", "median_dim", "median", "unique", "bincount", "histc", "searchsorted")
    dtype = number(d)
    if op == "bincount":
        return p.step(op, index_input(d, p, [d.between(0, 6)], 5), d.between(0, 7))
    if op == "histc":
        dtype = d.one("float32", "float64")
        x = d.input(p, d.shape(0, 3, empty=0), dtype, False, "ties")
        low, high = d.one((-2.0, 2.0), (-1.0, 1.0), (0.0, 4.0), (-3.0, 5.0))
        return p.step(op, f"%{x}", d.one(1, 2, 4, 8), low, high)
    if op == "searchsorted":
        line = sorted(d.values(d.between(0, 6), dtype, "ties")) if dtype in FLOATS else sorted(d.values(4, dtype))
        values = d.values(5, dtype, d.one("ties", "edges") if dtype in FLOATS else "plain")
        return p.step(op, f"%{p.input(dtype, [len(line)], line)}", f"%{p.input(dtype, [5], values)}", text(d.chance(0.5)))
    if op == "unique":
        return p.step(op, f"%{d.input(p, d.shape(), dtype, False, d.one('ties', 'plain'))}", results=3)
    if op == "sort":
        sizes = d.shape()
        ties = d.chance(0.5)
        x = d.input(p, sizes, d.dtype(*NUMBERS), True, d.kind("ties", "special")) if ties else distinct(d, p, sizes, dtype, special=0.3)
        return p.step(op, f"%{x}", d.dim(len(sizes)), text(d.chance(0.5)), results=2)
    sizes = d.shape(empty=0)
    x, dim = f"%{distinct(d, p, sizes, dtype, special=0.3)}", d.dim(len(sizes))
    size = sizes[dim] if sizes else 1
    if op == "median":
        return p.step(op, x)
    if op == "median_dim":
        return p.step(op, x, dim, text(d.chance(0.5)))
    if op == "topk":
        return p.step(op, x, d.between(0, size), dim, text(d.chance(0.5)))
    return p.step(op, x, d.between(1, size), dim, text(d.chance(0.5)))


# ---- products along dimensions
LETTERS = "abcdgh"


def einsum(d, p, dtype, kind):
    sizes = {letter: d.between(1, 3) for letter in LETTERS}
    dots, terms, operands = d.chance(0.2), [], []
    wide = [d.between(1, 2) for _ in range(d.between(0, 2))]
    for _ in range(d.between(1, 3)):
        letters = [d.one(*LETTERS[:4]) for _ in range(d.between(0 if dots else 1, 3))]
        shape = [1 if d.chance(0.05) and letters.count(one) == 1 else sizes[one] for one in letters]
        term = "".join(letters)
        if dots and d.chance(0.7):
            at = d.between(0, len(letters))
            term, shape = term[:at] + "..." + term[at:], shape[:at] + d.broadcastable(wide) + shape[at:]
        if not term:
            term, shape = "a", [sizes["a"]]
        terms.append(term)
        operands.append(d.input(p, shape, dtype, True, kind))
    used = sorted({c for term in terms for c in term if c != "."})
    equation = ",".join(terms)
    if d.chance(0.8):
        out = [c for c in used if d.chance(0.5)]
        d.random.shuffle(out)
        equation += "->" + ("..." if "..." in equation and d.chance(0.8) else "") + "".join(out)
    return p.step("einsum", equation, refs(operands))


def multiplied(d, p):
    op = d.one("prod", "prod_dim", "cumprod", "norm", "norm", "all_dim", "any_dim", "argmax_all", "argmin_all", "einsum",
               "einsum", "outer", "baddbmm")
    dtype = d.floating() if d.chance(0.7) else d.one("int64", "int32")
    kind = d.kind("plain", "plain", "ties")
    if op == "einsum":
        return einsum(d, p, d.one("float32", "float64"), kind)
    sizes = d.shape()
    if op == "outer":
        return p.step(op, *(f"%{d.input(p, [d.between(0, 4)], dtype, True, kind)}" for _ in range(2)))
    if op == "baddbmm":
        b, m, k, n = (d.between(1, 3) for _ in range(4))
        numbers = [d.one(1.0, 0.5, -2.0, 0.0) if dtype in FLOATS else d.one(1, 2) for _ in range(2)]
        if numbers[1] == 0:
            numbers[1] = 1.0  # differences.py: gradients at alpha = 0
        make = lambda sizes: f"%{d.input(p, sizes, dtype, True, kind)}"
        return p.step(op, make(d.broadcastable([b, m, n])), make([b, m, k]), make([b, k, n]), *numbers)
    dim, keep = d.dim(len(sizes)), text(d.chance(0.5))
    if op in ("argmax_all", "argmin_all"):
        sizes = d.shape(empty=0)
        return p.step(op, f"%{d.input(p, sizes, dtype, False, d.kind('ties', 'special'))}")
    if op in ("all_dim", "any_dim"):
        return p.step(op, f"%{d.input(p, sizes, d.dtype('float32', 'int64', 'bool', 'float16'), False, d.kind('ties', 'special'))}", dim, keep)
    if op == "norm":
        dtype, order = d.one("float32", "float64"), d.one(0.0, 1.0, 2.0, 2.0, 3.0, 0.5, 1.5, -1.0, math.inf, -math.inf)
        if math.isinf(order):  # differences.py: of elements that tie
            sizes = d.shape(empty=0)
            x = p.input(dtype, sizes, d.random.sample([n * 0.25 for n in range(1, math.prod(sizes) + 1)], math.prod(sizes)), True)
        else:
            x = d.input(p, sizes, dtype, True, "plain" if order < 0 else kind)
        over = d.dims(len(sizes), 0)
        # The second derivative of the norm of one number is a difference of equal terms.
        terms = math.prod(sizes[i] for i in over or range(len(sizes)))
        d.plain = d.plain and order in (1.0, 2.0, 3.0) and kind == "plain" and 0 not in sizes and terms > 1
        return p.step(op, f"%{x}", order, dims(over), keep)
    if dtype in ("float16", "bfloat16"):
        dtype = "float32"
    x = f"%{d.input(p, sizes, dtype, True, kind)}"
    d.plain = d.plain and 0 < math.prod(sizes) <= 100  # as in scanned
    return p.step(op, x, *{"prod": [], "prod_dim": [dim, keep], "cumprod": [dim]}[op])


def scanned(d, p):
    op = d.one("cummax", "cummin", "logcumsumexp", "cumprod", "cumprod", "prod_dim", "prod")
    sizes = d.shape()
    dim = d.dim(len(sizes))
    if op in ("cummax", "cummin"):
        return p.step(op, f"%{d.input(p, sizes, d.dtype(), True, d.kind())}", dim, results=2)
    dtype = d.one("float32", "float64")
    if op == "logcumsumexp":
        d.plain = False  # second derivatives where a gradient is 0: differences.py
        return p.step(op, f"%{d.input(p, sizes, dtype, True, d.kind('plain', 'plain', 'ties'))}", dim)
    # PyTorch's second derivative of a large product with zeros takes minutes.
    d.plain = d.plain and 0 < math.prod(sizes) <= 100
    x = f"%{d.input(p, sizes, dtype, True, d.kind('plain', 'ties', 'ties'))}"
    return p.step(op, x, *{"prod": [], "prod_dim": [dim, text(d.chance(0.5))], "cumprod": [dim]}[op])
