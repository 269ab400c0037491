#!/usr/bin/env python3
"""Writes tests/autograd/data/expressions.txt: values and gradients of some composite expressions, as PyTorch computes them.

Run it with a Python that has PyTorch: python3 tests/autograd/golden.py [FOLDER]. Files say which PyTorch made them;
scripts/check_golden.sh compares them with another one.
Format: tests/golden.h. Each expression has inputs x0, x1, ...; its loss is sum(y * g).
"""
import pathlib
import sys

import torch

DATA = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
RANDOM = torch.Generator().manual_seed(7)
lines = [f"# Made by tests/autograd/golden.py with PyTorch {torch.__version__}"]


def draw(*sizes, low=-2.0, high=2.0):
    return torch.rand(sizes, generator=RANDOM, dtype=torch.float64) * (high - low) + low


def write(name, value):
    value = value.detach()
    lines.append(" ".join([name, "float64", *map(str, value.shape)]))
    lines.append(" ".join(repr(v) for v in value.flatten().tolist()))


def expression(name, function, *inputs, second=True):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = function(*leaves)
    g = draw(*y.shape)
    first = torch.autograd.grad(y, leaves, g, create_graph=True)
    for i, x in enumerate(inputs):
        write(f"{name}.x{i}", x)
    write(f"{name}.y", y)
    write(f"{name}.g", g)
    for i, dx in enumerate(first):
        write(f"{name}.dx{i}", dx)
    if second:
        # Of the sum of squares of all first derivatives.
        again = torch.autograd.grad(sum((dx * dx).sum() for dx in first), leaves, allow_unused=True)
        for i, (x, ddx) in enumerate(zip(leaves, again)):
            write(f"{name}.ddx{i}", torch.zeros_like(x) if ddx is None else ddx)


expression("mlp", lambda x, w, b, v: torch.tanh(x @ w.t() + b) @ v, draw(4, 3), draw(5, 3), draw(5), draw(5, 2))
expression("attention", lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / 2.0, -1) @ v,
           draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 2))
expression("layer_norm", lambda x, w, b: (x - x.mean(-1, keepdim=True))
           / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) * w + b, draw(3, 4), draw(4), draw(4))
target = torch.tensor([[2], [0], [1]])
expression("cross_entropy", lambda x: -torch.log_softmax(x, 1).gather(1, target).mean(), draw(3, 4))
expression("logsumexp", lambda x: torch.logsumexp(x * x, 0) - torch.cumsum(x, 0)[1], draw(3, 2))
expression("pieces", lambda x: torch.cat([x[0:1] * x[1:2], torch.stack(x.unbind(1), 0)[:2, 1:].exp().reshape(1, -1)[:, :3]]),
           draw(3, 3))


def in_place(x, w):
    y = x * 2
    y[0].mul_(w)
    y[:, 1].add_(y[:, 0].exp(), alpha=0.5)
    y.clamp_(-1.5, 6.0)
    return y.t() * w.sum()


expression("in_place", in_place, draw(2, 3), draw(3))
expression("powers", lambda x, y: x.pow(y) + torch.atan2(y, x) - x.log1p() * y.abs().sqrt(), draw(2, 3, low=0.3), draw(3))
expression("activations", lambda x: torch.nn.functional.gelu(x) * torch.nn.functional.silu(x)
           + torch.nn.functional.softplus(x) / (1 + torch.sigmoid(x)) - torch.erf(x), draw(2, 3))
expression("selection", lambda x, y: torch.where(x > y, x * y, y.masked_fill(y > 1, 0.5) * x.max(1, keepdim=True)[0]),
           draw(3, 3), draw(3))
index = torch.tensor([2, 0, 2, 1])
expression("embedding", lambda t: t.index_select(0, index).square().sum(1)
           + torch.zeros(4, dtype=torch.float64).index_add(0, torch.tensor([1, 1, 3]), t[:, 0] ** 3), draw(3, 2))


def squared(function):
    """Of the inputs' squares: what only moves elements has no second derivative to compare."""
    return lambda *inputs: function(*[x * x for x in inputs])


places, mask = torch.tensor([[1], [-1]]), torch.tensor([True, False, True])
expression("indexing", squared(lambda x: torch.cat([x[places, torch.tensor([0, 2])].reshape(-1), x[1:, None, mask].reshape(-1),
                                            x[torch.tensor([2, 2, 0]), :, torch.tensor([1, 0, 1])].reshape(-1)])),
           draw(3, 3, 2))


def written(x, y):
    z = x * 1
    z[torch.tensor([2, 0]), 1:] = y
    z[mask] = z[mask] * 2
    z[..., 0] = y[0, 0]
    return z.scatter(0, torch.tensor([[1, 0, 2]]), y[:1, :1].expand(1, 3) ** 2)


expression("writing", squared(written), draw(3, 3), draw(2, 2))
pad = torch.nn.functional.pad
expression("rearranging", squared(lambda x: torch.cat([part.reshape(-1) for part in (
    x.flip(0, 2), x.roll(2, 1), x.roll(5), x.repeat(2, 1, 1, 2), x.tile(3), x.repeat_interleave(2, 1),
    pad(x, (1, -1, 0, 2), value=2.0), pad(x, (2, 1), mode="reflect"), pad(x, (3, 1), mode="replicate"),
    pad(x, (1, 2), mode="circular"), x.tril(1), x.triu(-1), torch.diag(x[0, 0], -2), torch.diag(x[1], 1),
    torch.diagonal(x, -1, 2, 0), torch.movedim(x, 0, -1), *torch.meshgrid(x[0, 0], x[1, :, 0], indexing="ij"))])),
           draw(2, 3, 4))
expression("ordering", squared(lambda x: torch.cat([x.sort(1, descending=True)[0].reshape(-1), x.topk(2, 0)[0].reshape(-1),
                                            x.kthvalue(3, 1)[0], x.median(0)[0], x.median().reshape(1)])), draw(3, 4))
expression("products", lambda x: torch.cat([x.prod(1), x.cumprod(0).reshape(-1), x.prod().reshape(1)]), draw(3, 4))
expression("norms", lambda x: torch.stack([x.norm(), x.norm(1), x.norm(3), x.norm(float("inf")), x.norm(2, 0).sum(),
                                           x.norm(0.5, 1).prod()]), draw(3, 4))
expression("einsum", lambda a, b, c: torch.einsum("...ij,...jk,k->...ki", a, b, c) + torch.einsum("bii->b", a[..., :2]).sum()
           + torch.baddbmm(c, a, b, beta=0.5, alpha=2).sum() + torch.einsum("i,j", c, c).sum(),
           draw(2, 2, 3), draw(2, 3, 2), draw(2))

# torch.autograd.functional, of two functions of two inputs (tests/autograd/functional_test.cpp).
functional = torch.autograd.functional


def two_outputs(x, y):
    return torch.tanh(x * y), (x.exp() * y).sum(1)


def scalar(x, y):
    return (x * x * y).sin().sum() + (y ** 3).sum()


at = draw(2, 3), draw(3)
v_in, v_out = (draw(2, 3), draw(3)), (draw(2, 3), draw(2))
for i, value in enumerate([*at, *v_in, *v_out]):
    write(f"functional.in{i}", value)


def write_all(name, *values):
    for i, value in enumerate(values):
        write(f"functional.{name}{i}", value)


write_all("jacobian", *(part for row in functional.jacobian(two_outputs, at) for part in row))
write_all("hessian", *(part for row in functional.hessian(scalar, at) for part in row))
write_all("vjp", *functional.vjp(two_outputs, at, v_out)[1])
write_all("jvp", *functional.jvp(two_outputs, at, v_in)[1])
write_all("vhp", *functional.vhp(scalar, at, v_in)[1])
write_all("hvp", *functional.hvp(scalar, at, v_in)[1])



def written_by_index(x, y):
    """Each operation in place that takes an index, and those along a dimension."""
    z = x * 1
    z.scatter_(1, torch.tensor([[3, 0], [1, 2]]), y)
    z.scatter_(0, torch.tensor([[2, 0, 1, 0]]), 0.5)
    z.scatter_add_(1, torch.tensor([[3, 3], [1, 1]]), y)
    z.index_add_(1, torch.tensor([0, 0]), torch.cat([y, y[:1]]))
    w = z.index_fill(0, torch.tensor([1, 1]), 2.5) * z.index_copy(0, torch.tensor([2, 0]), torch.cat([y, y * y], 1))
    z.index_fill_(1, torch.tensor([2]), -1.5).index_copy_(1, torch.tensor([3, 1]), torch.cat([y, y[1:]]))
    z.cumsum_(1).mul_(w).cumprod_(0)
    return torch.stack([z.clone().tril_(), z.clone().triu_(1), z])


expression("written_by_index", squared(written_by_index), draw(3, 4), draw(2, 2))


def running(x):
    with_zeros = x * torch.tensor([[1.0, 1, 0, 1], [1, 1, 1, 0], [0, 1, 0, 1]])
    return torch.cat([with_zeros.cumprod(0), with_zeros.cumprod(1), x.cummax(1)[0], x.cummin(0)[0], x.logcumsumexp(1),
                      with_zeros.prod(1, keepdim=True).expand(3, 4), with_zeros[1:].prod(0).expand(1, 4)])


expression("running", running, draw(3, 4))

DATA.mkdir(exist_ok=True)
(DATA / "expressions.txt").write_text("\n".join(lines) + "\n")
