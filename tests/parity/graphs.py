"""Random graphs: 20 to 60 steps over a few leaves, with views and steps in place, and derivatives of two orders."""
import math

import torch

from cases import as_list, dims, refs, text, view_step
from program import dtype_name

# Bounded and smooth: sixty steps neither overflow nor magnify roundings without end.
SMOOTH = "sin cos tanh sigmoid atan erf gelu silu softplus logsigmoid".split()  # (elu's second derivative jumps)
KINKED = "relu abs square neg".split()


class Graph:
    """Grows a program step by step, running each so that the next one knows shapes and what requires gradients."""

    def __init__(self, d, p):
        self.d, self.p, self.live, self.env, self.done = d, p, [], {}, 0
        # Tensors whose elements some step keeps for backward: changing them would be an error, here and there,
        # but not always for the same steps.
        self.kept = set()
        # The storages of results that PyTorch does not lay out in row-major order. Where PyTorch sees them with other
        # sizes, this library may copy or refuse (differences.py: results_in_row_major_order).
        self.other_order = set()

    def catch_up(self):
        self.p.run(env=self.env, start=self.done)
        self.done = len(self.p.nodes)

    def storage(self, n):
        return self.env[n].untyped_storage().data_ptr()

    def add(self, op, *args, results=1, keeps=()):
        known = {self.storage(n) for n in self.env}
        numbers = as_list(self.p.step(op, *args, results=results))
        self.catch_up()
        self.other_order |= {self.storage(n) for n in numbers if not self.env[n].is_contiguous()} - known
        self.kept |= set(keeps) | (set(numbers) if op in SMOOTH + KINKED + ["softmax", "logsumexp"] else set())
        self.live += [n for n in numbers if self.env[n].numel() > 0]
        return numbers

    def sizes(self, n):
        return list(self.env[n].shape)

    def pick(self):
        """Rather a late one, so that graphs are deep."""
        return self.live[max(self.d.below(len(self.live)), self.d.below(len(self.live)))]

    def is_kept(self, n):
        return any(self.storage(k) == self.storage(n) for k in self.kept)

    def like(self, sizes):
        """A tensor that broadcasts to `sizes`: one that is there, or a view of one, or a constant."""
        for n in self.d.random.sample(self.live, min(4, len(self.live))):
            try:
                if list(torch.broadcast_shapes(self.env[n].shape, sizes)) == sizes:
                    return n
            except RuntimeError:
                pass
        number = self.d.input(self.p, self.d.broadcastable(sizes), self.dtype, False, plain_layout=self.d.chance(0.5))
        self.catch_up()
        return number

    def grow(self):
        d, x = self.d, self.pick()
        sizes, ref = self.sizes(x), f"%{x}"
        what = d.one("unary", "unary", "binary", "binary", "binary", "view", "view", "view", "in_place", "in_place",
                     "in_place", "sum", "product", "join", "where", "index", "detach")
        if what == "unary":
            op = d.one(*SMOOTH, *KINKED)
            if op == "softplus" and self.env[x].max() > 20:  # differences.py: gradient_of_softplus_above_20
                op = "tanh"
            self.add(op, ref, keeps=[x])
        elif what == "binary":
            y = self.like(sizes)
            op = d.one("add", "sub", "mul", "maximum", "minimum")
            self.add(op, ref, f"%{y}", keeps=[] if op in ("add", "sub") else [x, y])
        elif what == "view":
            before = self.p.count
            view_step(d, self.p, x, sizes, any_strides=self.storage(x) in self.other_order)
            self.catch_up()
            self.live += [n for n in range(before, self.p.count) if self.env[n].numel()]
        elif what == "in_place":
            self.change(x)
        elif what == "sum" and sizes:
            op = d.one("sum_dims", "mean_dims", "cumsum", "softmax", "logsumexp")
            dim = d.dim(len(sizes))
            arguments = {"cumsum": [dim], "softmax": [dim], "logsumexp": [dim, text(d.chance(0.7))]}
            self.add(op, ref, *arguments.get(op, [dims([dim]), text(d.chance(0.7))]),
                     keeps=[x] if op in ("softmax", "logsumexp") else [])
        elif what == "product" and len(sizes) >= 2:
            w = d.input(self.p, [sizes[-1], d.between(1, 3)], self.dtype, d.chance(0.5), low=-1, high=1)
            self.add("matmul", ref, f"%{w}", keeps=[x, w])
        elif what == "join" and sizes:
            self.add(d.one("cat", "stack"), refs([x, x] if d.chance(0.3) else [x]), d.dim(len(sizes)))
        elif what == "where":
            y = self.like(sizes)
            m = d.input(self.p, d.broadcastable(sizes), "bool")
            self.add(*(("where", f"%{m}", ref, f"%{y}") if d.chance(0.5) else ("masked_fill", ref, f"%{m}", 0.5)))
        elif what == "index" and sizes:
            dim = d.below(len(sizes))
            count = d.between(1, 3)
            index = self.p.input("int64", [count], [d.below(sizes[dim]) for _ in range(count)])
            self.add("index_select", ref, dim, f"%{index}")
        elif what == "detach" and d.chance(0.3):
            self.add("detach", ref)

    def change(self, x):
        """A step in place, on what nobody keeps; else on a copy."""
        d = self.d
        overlaps = any(s == 0 and n > 1 for s, n in zip(self.env[x].stride(), self.env[x].shape))
        leaf = self.env[x].is_leaf and self.env[x].requires_grad
        if leaf or overlaps or self.is_kept(x) or d.chance(0.1):
            (x,) = self.add("clone", f"%{x}")
        ref, sizes = f"%{x}", self.sizes(x)
        op = d.one("add_", "add_", "sub_", "mul_", "mul_", "copy_", "relu_", "clamp_", "masked_fill_", "zero_", "fill_")
        if op in ("add_", "sub_", "mul_", "copy_"):
            y = self.like(sizes)
            if self.storage(y) == self.storage(x):
                y, = self.add("clone", f"%{y}")
            alpha = [d.one(1, 1, 0.5, -1)] if op in ("add_", "sub_") else []
            self.add(op, ref, *([f"%{y}", *alpha] if d.chance(0.8) or op == "copy_" else [0.7, *(alpha and [1])]),
                     keeps=[y] if op == "mul_" else [])
        elif op == "masked_fill_":
            self.add(op, ref, f"%{d.input(self.p, d.broadcastable(sizes), 'bool')}", 0.3)
        elif op == "relu_":
            self.add(op, ref, keeps=[x])
        else:
            self.add(op, ref, *{"clamp_": [-0.8, 0.9], "fill_": [0.4]}.get(op, []))


def graph(d, p):
    g = Graph(d, p)
    g.dtype = d.one("float64", "float64", "float32")
    for _ in range(d.between(2, 4)):
        g.live.append(d.input(p, d.shape(0, 3, empty=0), g.dtype, True, low=-1.5, high=1.5))
    g.catch_up()
    wanted = d.between(20, 60)
    while len(p.steps()) < wanted:
        g.grow()
    scored = [n for n in g.live[-12:] if g.env[n].requires_grad and dtype_name(g.env[n]) == g.dtype]
    return sorted(set(d.random.sample(scored, min(3, len(scored)))))
