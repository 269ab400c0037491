"""Random shapes, values and layouts. Python's own generator: the same cases with every PyTorch."""
import math
import random

from program import EPSILON, FLOATS

INTEGER_RANGE = {"int64": (-2**63, 2**63 - 1), "int32": (-2**31, 2**31 - 1), "uint8": (0, 255), "bool": (0, 1)}
LARGEST = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308, "float16": 65504.0,
           "bfloat16": 3.3895313892515355e38}
DENORMAL = {"float32": 1e-40, "float64": 4e-310, "float16": 3e-6, "bfloat16": 1e-40}
DECADES = {"float32": 18, "float64": 100, "float16": 2, "bfloat16": 18}


class Draw:
    def __init__(self, seed, largest=24):
        self.random = random.Random(seed)
        self.largest = largest  # elements of a tensor
        self.plain = True       # no value of this case was out of the ordinary

    def chance(self, p):
        return self.random.random() < p

    def below(self, n):
        return self.random.randrange(n)

    def one(self, *options):
        return options[self.below(len(options))]

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def number(self, low=-2.0, high=2.0):
        """Few digits: files stay small and readable."""
        return round(low + self.random.random() * (high - low), 2)

    # ---- shapes
    def shape(self, low=0, high=4, empty=0.06):
        rank = self.between(low, high)
        while True:
            if rank == 1 and self.chance(0.3):
                sizes = [self.between(1, self.largest)]
            else:
                sizes = [0 if self.chance(empty) else self.one(1, 2, 3, 4, 5) for _ in range(rank)]
            if math.prod(sizes) <= self.largest:
                return sizes

    def broadcastable(self, sizes):
        """To `sizes`."""
        kept = sizes[self.between(0, len(sizes)) if self.chance(0.3) else 0:]
        return [1 if self.chance(0.25) else s for s in kept]

    def pair(self):
        """Two shapes that broadcast, and what they broadcast to."""
        full = self.shape()
        one, other = (full, self.broadcastable(full)) if self.chance(0.7) else (self.broadcastable(full), full)
        return one, other

    def dims(self, rank, least=1):
        chosen = [d for d in range(rank) if self.chance(0.5)]
        while len(chosen) < min(least, rank):
            chosen = sorted(set(chosen) | {self.below(rank)})
        self.random.shuffle(chosen)
        return [d - rank if self.chance(0.3) else d for d in chosen]

    def dim(self, rank):
        return self.between(-max(rank, 1), max(rank, 1) - 1)

    # ---- values
    def dtype(self, *among):
        return self.one(*among) if among else self.one(
            "float32", "float32", "float32", "float64", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")

    def floating(self):
        return self.one("float32", "float32", "float32", "float64", "float64", "float16", "bfloat16")

    def kind(self, *among):
        """What values are like. "special": zeros, infinities, NaN, the smallest, the largest; "edges": all but the largest,
        whose sums depend on their order."""
        kind = self.one(*(among or ("plain", "plain", "plain", "ties", "wide", "special")))
        self.plain = self.plain and kind in ("plain", "ties")
        return kind

    def value(self, dtype, kind, low, high):
        if dtype not in FLOATS:
            least, most = INTEGER_RANGE[dtype]
            if kind in ("special", "edges"):
                return self.one(0, 1, most, most - 1, least, max(least, -1), 7)
            return self.between(max(least, -5), min(most, 100 if kind == "wide" else 6))
        if kind in ("special", "edges") and self.chance(0.7):
            few = (0.0, 0.0, 1.0, 0.5, math.inf, math.nan, DENORMAL[dtype], EPSILON[dtype])
            huge = (LARGEST[dtype], LARGEST[dtype] / 3, math.sqrt(LARGEST[dtype])) if kind == "special" else ()
            return self.one(-1, 1) * self.one(*few, *huge)
        if kind == "ties":
            return float(self.between(-2, 2))
        if kind == "wide":
            return float(f"{self.number() * 10.0 ** self.between(-DECADES[dtype], DECADES[dtype]):.3g}")
        return self.number(low, high)

    def values(self, count, dtype, kind="plain", low=-2.0, high=2.0):
        return [self.value(dtype, kind, low, high) for _ in range(count)]

    # ---- inputs
    def layout(self, sizes, overlapping):
        """Strides, offset and storage size of some window: transposed, strided, expanded, or none of it."""
        order = list(range(len(sizes)))
        if self.chance(0.6):
            self.random.shuffle(order)
        strides, step = [0] * len(sizes), 1
        for d in reversed(order):
            if overlapping and self.chance(0.15):
                continue
            strides[d] = step
            step *= max(sizes[d], 1)
            if self.chance(0.2):
                step *= 2
            elif self.chance(0.15):
                step += 1
        if self.chance(0.2) and strides and self.largest > 1:
            d = self.below(len(strides))
            if strides[d] == 1:
                strides = [2 * s for s in strides]
        offset = self.one(0, 0, 1, 3)
        reach = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) + 1 if 0 not in sizes else offset
        return strides, offset, reach

    def input(self, program, sizes, dtype, grad=False, kind="plain", low=-2.0, high=2.0, plain_layout=False, overlapping=True):
        """Adds an input; its number. Floating ones may have gradients."""
        grad = bool(grad) and dtype in FLOATS
        count = math.prod(sizes)
        if plain_layout or self.chance(0.6) or len(sizes) == 0:
            return program.input(dtype, sizes, self.values(count, dtype, kind, low, high), grad)
        strides, offset, reach = self.layout(sizes, overlapping)
        return program.input(dtype, sizes, self.values(reach, dtype, kind, low, high), grad, strides, offset)
