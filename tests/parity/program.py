"""A case: inputs, steps over them, and what PyTorch makes of it. Text in, text out; README.md has the format."""
import math
import re
import struct

import torch

import ops

FLOATS = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}
INTEGERS = {"int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "bool": torch.bool}
DTYPES = {**FLOATS, **INTEGERS}
EPSILON = {name: torch.finfo(dtype).eps for name, dtype in FLOATS.items()}


def dtype_name(tensor):
    return str(tensor.dtype)[6:]


def rounded(value, dtype):
    """A number as the dtype stores it."""
    if dtype == "float64" or math.isnan(value) or math.isinf(value) or value == 0:
        return value
    try:
        if dtype == "float16":
            return struct.unpack("<e", struct.pack("<e", struct.unpack("<f", struct.pack("<f", value))[0]))[0]
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype == "bfloat16":
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def number_text(value, dtype):
    """The shortest decimal that reads back as the same element."""
    if dtype not in FLOATS:
        return str(int(value))
    if value == int(value) if math.isfinite(value) and abs(value) < 1e6 else False:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    if dtype == "float64" or not math.isfinite(value):
        return repr(value)
    return next(text for text in (f"{value:.{digits}g}" for digits in range(1, 18)) if rounded(float(text), dtype) == value)


JITTER = 1e-9


def jitter(x, random):
    """Changes each element of a float64 tensor by up to JITTER of itself, unseen by autograd."""
    if x.dtype == torch.float64:
        factors = [1 + JITTER * random.uniform(-1, 1) for _ in range(x.numel())]
        x.data.mul_(torch.tensor(factors, dtype=x.dtype).reshape(x.shape))


class Input:
    """A tensor given by the elements of its storage. No strides: contiguous from offset 0."""

    def __init__(self, dtype, sizes, values, grad=False, strides=None, offset=0):
        self.dtype, self.sizes, self.grad, self.strides, self.offset = dtype, list(sizes), grad, strides, offset
        self.values = [rounded(v, dtype) for v in values] if dtype in FLOATS else [int(v) for v in values]

    def make(self, floating, disturb):
        dtype = floating if floating and self.dtype in FLOATS else DTYPES[self.dtype]
        storage = torch.tensor(self.values, dtype=dtype)
        if disturb:
            jitter(storage, disturb)
        x = storage.reshape(self.sizes) if self.strides is None else storage.as_strided(self.sizes, self.strides, self.offset)
        return x.detach().requires_grad_(self.grad)

    def text(self):
        layout = "" if self.strides is None else f" {dims_text(self.strides)}+{self.offset}"
        values = " ".join(number_text(v, self.dtype) for v in self.values)
        return f"{self.dtype} {dims_text(self.sizes)}{layout}{' grad' if self.grad else ''} = {values}".rstrip()


class Step:
    def __init__(self, results, op, args):
        self.results, self.op, self.args = results, op, args

    def text(self):
        return f"{','.join(f'%{r}' for r in self.results)} = {' '.join([self.op, *self.args])}"


def dims_text(dims):
    return "[" + ",".join(map(str, dims)) + "]"


def indices(token, env):
    """What stands between brackets: `{1;-3:5:2;none;...;%4}`."""
    def one(text):
        if text.startswith("%"):
            return env[int(text[1:])]
        if text in ("none", "..."):
            return None if text == "none" else Ellipsis
        if ":" in text:
            return slice(*(int(part) if part else None for part in text.split(":")))
        return int(text)

    return tuple(one(text) for text in token[1:-1].split(";") if text)


def argument(token, env, floating):
    if token.startswith("%"):
        return env[int(token[1:])]
    if token.startswith("("):
        return [argument(part, env, floating) for part in token[1:-1].split(",") if part]
    if token.startswith("["):
        return [int(part) for part in token[1:-1].split(",") if part]
    if token.startswith("{"):
        return indices(token, env)
    if token in DTYPES:
        return floating if floating and token in FLOATS else DTYPES[token]
    constants = {"none": None, "true": True, "false": False}
    if token in constants:
        return constants[token]
    try:
        return int(token) if re.fullmatch(r"-?\d+", token) else float(token)
    except ValueError:
        return token


class Program:
    def __init__(self, name):
        self.name = name
        self.nodes = []  # (number or None, Input or Step), in order
        self.count = 0
        self.expected = []  # lines
        self.notes = []  # lines that are kept as they are: "differs ..." and the like

    @property
    def raises(self):
        return "raises" in self.notes

    # ---- building
    def input(self, *args, **kwargs):
        self.nodes.append(Input(*args, **kwargs))
        self.nodes[-1].number = self.count
        self.count += 1
        return self.count - 1

    def step(self, op, *args, results=1):
        numbers = list(range(self.count, self.count + results))
        self.nodes.append(Step(numbers, op, [str(a) for a in args]))
        self.count += results
        return numbers[0] if results == 1 else numbers

    # ---- running
    def run(self, floating=None, env=None, start=0, disturb=None):
        """What each number is, all floating tensors in the dtype `floating` if it is given. With `env`: node `start` and
        later, over what the nodes before have left there. With `disturb`, a random.Random: with jitter on the inputs and
        on rounded results."""
        env = {} if env is None else env
        for node in self.nodes[start:]:
            if isinstance(node, Input):
                env[node.number] = node.make(floating, disturb)
                continue
            result = ops.OPS[node.op](*(argument(token, env, floating) for token in node.args))
            result = list(result) if isinstance(result, (tuple, list)) else [result]
            if len(result) != len(node.results):
                raise ValueError(f"{node.op} gave {len(result)} results, expected {len(node.results)}")
            if disturb and node.op in ops.ROUNDED:
                jitter(result[0], disturb)
            env.update(zip(node.results, result))
        return env

    def inputs(self):
        return [n for n in self.nodes if isinstance(n, Input)]

    def steps(self):
        return [n for n in self.nodes if isinstance(n, Step)]

    def expect(self, numbers, random=None):
        """Runs the program and writes down what PyTorch gives for these numbers. With `random`, a random.Random: their slack
        is at least the effect of an epsilon of each input."""
        actual = self.run()
        high = self.run(torch.float64)
        mixed = any(n.dtype in FLOATS and n.dtype != "float64" for n in self.inputs()) or any(
            token in FLOATS and token != "float64" for n in self.steps() for token in n.args)
        # All float64: there is nothing more precise, but float32 shows how errors grow.
        low, scale = (actual, 1.0) if mixed else (self.run(torch.float32), EPSILON["float64"] / EPSILON["float32"])
        disturbed = [self.run(torch.float64, disturb=random) for _ in range(2 if random else 0)]
        inputs = [abs(v) for n in self.inputs() if n.dtype in FLOATS for v in n.values if math.isfinite(v)]
        jump = 1e-6 * max(inputs, default=0)
        coarse = max((EPSILON[n.dtype] for n in self.inputs() if n.dtype in FLOATS), default=0)
        from_grad = {r for n in self.steps() if n.op in ("grad", "backward") for r in n.results}
        if random and any(overflows_on_the_way(actual[n], high[n]) for n in numbers):
            raise ValueError("PyTorch overflows on the way")
        self.expected = [expectation(n, actual[n], low[n], high[n], scale, coarse,
                                     amplified(high[n], [d[n] for d in disturbed], jump), n in from_grad) for n in numbers]

    def is_steady(self, numbers, random):
        """Whether a change of the inputs, and of what steps compute from them, by JITTER hardly changes these results. If it
        does, an operand is so close to a kink (a tie of `maximum`, for example) that rounding decides which side it is on."""
        results = self.run(torch.float64)
        changed = self.run(torch.float64, disturb=random)
        return all(torch.allclose(changed[n], results[n], rtol=1e-5, atol=1e-5, equal_nan=True) for n in numbers)

    # ---- text
    def text(self):
        lines = [f"case {self.name}"] + self.notes
        for node in self.nodes:
            lines.append(f"%{node.number} {node.text()}" if isinstance(node, Input) else node.text())
        return "\n".join(lines + self.expected) + "\n"


def elements(tensor):
    tensor = tensor.detach()
    return (torch.zeros(tensor.shape) if tensor._is_zerotensor() else tensor).flatten().tolist()


def overflows_on_the_way(actual, high):
    """Whether an element is infinite or NaN that the dtype could hold."""
    if not actual.is_floating_point() or actual.shape != high.shape:
        return False
    most = torch.finfo(actual.dtype).max
    return any(not math.isfinite(a) and abs(h) < most for a, h in zip(elements(actual), elements(high)))


def amplified(high, disturbed, jump):
    """By how many times the relative change of the inputs each element of `high` changes: 0 where that is what it does to
    the element itself (a copy, for example), and where it is no rounding but a jump."""
    if not disturbed or any(d.shape != high.shape for d in disturbed):
        return [0.0] * high.numel()
    def factor(h, *others):
        change = max(abs(o - h) for o in others)
        return change / JITTER if 4 * JITTER * abs(h) < change < jump else 0.0
    return [factor(*values) for values in zip(elements(high), *map(elements, disturbed))]


def expectation(number, actual, low, high, scale, coarse, amplified, from_grad):
    """`? %n dtype [sizes] grad|plain|any = values`, each with `~slack` where PyTorch itself is unsure of it."""
    dtype = dtype_name(actual)
    words = []
    if low.shape != actual.shape or high.shape != actual.shape:  # how many there are depends on the precision
        low, high, amplified = actual, actual, [0.0] * actual.numel()
    for a, l, h, factor in zip(elements(actual), elements(low), elements(high), amplified):
        word = number_text(a, dtype)
        if dtype in FLOATS and math.isfinite(a) and math.isfinite(float(l)) and math.isfinite(float(h)):
            slack = max(abs(l - h) * scale, EPSILON[dtype] * factor)
            if from_grad and EPSILON[dtype] * abs(a) < slack:  # a sum of what steps of another dtype have rounded
                slack = max(slack, coarse * abs(a))
            if slack > EPSILON[dtype] * abs(a):
                word += f"~{slack:.0e}"
        words.append(word)
    grad = "any" if from_grad else "grad" if actual.requires_grad else "plain"
    return f"? %{number} {dtype} {dims_text(actual.shape)} {grad} = {' '.join(words)}".rstrip()


def read(path):
    """The comments and the programs of a file, each program with the numbers that it has expectations for."""
    comments, cases = [], []
    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("#"):
            comments.append(line)
        elif line.startswith("case "):
            cases.append((Program(line[5:]), []))
        elif line.startswith("?"):
            cases[-1][0].expected.append(line)
            cases[-1][1].append(int(line.split()[1][1:]))
        elif line.startswith("%"):
            add_line(cases[-1][0], line)
        elif line:
            cases[-1][0].notes.append(line)
    return comments, cases


def add_line(program, line):
    left, _, right = line.partition(" = ") if " = " in line else line.partition(" =")
    words = left.split()
    if len(words) == 1:  # a step
        results = [int(r[1:]) for r in left.split(",")]
        op, *args = right.split()
        program.nodes.append(Step(results, op, args))
        program.count = results[-1] + 1
        return
    dims = lambda text: [int(d) for d in text.strip("[]").split(",") if d]
    layout = next((w for w in words[3:] if w.startswith("[")), None)
    strides, _, offset = layout.partition("+") if layout else (None, None, 0)
    number = float if words[1] in FLOATS else int
    program.input(words[1], dims(words[2]), [number(v) for v in right.split()], grad="grad" in words[3:],
                  strides=dims(strides) if layout else None, offset=int(offset))
