#!/usr/bin/env python3
"""Writes tests/nn/data/amp.txt: what torch.autocast and torch.amp.GradScaler do on the CPU, beside golden.py's, whose words hold here.

Run it with a Python that has PyTorch 2: python3 tests/nn/golden_amp.py [FOLDER].
"""
import torch
from torch import nn
from torch.nn import functional as F

import golden
from golden_half import HALVES, draw

golden.SCRIPT = "tests/nn/golden_amp.py"
CODES = {torch.float32: 0, torch.float64: 1, torch.float16: 6, torch.bfloat16: 7}  # tendril's DType


def dtypes(out):
    """The dtype of each result, of float32 operands, of ones in the half type (h), and of float64 (d)."""
    for half, dtype in HALVES.items():
        x, w, b, image, target = torch.ones(4, 8), torch.ones(8, 8), torch.ones(8), torch.ones(2, 4, 6, 6), torch.zeros(4).long()
        h, d = x.to(dtype), x.double()
        kernel = torch.ones(3, 4, 3, 3)
        calls = {
            "mm": lambda: x.mm(w), "matmul": lambda: x @ w, "bmm": lambda: x[None].bmm(w[None]), "dot": lambda: b.dot(b),
            "linear": lambda: F.linear(x, w, b), "addmm": lambda: torch.addmm(b, x, w),
            "baddbmm": lambda: torch.baddbmm(x[None], x[None], w[None]), "einsum": lambda: torch.einsum("ij,jk->ik", x, w),
            "conv2d": lambda: F.conv2d(image, kernel), "attention": lambda: F.scaled_dot_product_attention(x[None], x[None], x[None]),
            "prelu": lambda: F.prelu(x, torch.ones(1)), "mm.mixed": lambda: h.mm(w), "mm.d": lambda: d.mm(w.double()),
            "lstm": lambda: nn.LSTM(8, 3)(x)[0] if dtype is torch.bfloat16 else h, # oneDNN has none in float16
            "gru": lambda: nn.GRU(8, 3)(x)[0], "mha": lambda: nn.MultiheadAttention(8, 2)(x, x, x)[0],
            "softmax": lambda: x.softmax(-1), "softmax.h": lambda: h.softmax(-1),
            "layer_norm.h": lambda: F.layer_norm(h, (8,), b, b), "group_norm.h": lambda: F.group_norm(image.to(dtype), 2),
            "batch_norm.h": lambda: F.batch_norm(image.to(dtype), torch.ones(4), torch.ones(4), torch.ones(4), torch.ones(4), True),
            "cross_entropy.h": lambda: F.cross_entropy(h, target), "cross_entropy.d": lambda: F.cross_entropy(d, target),
            "nll_loss.h": lambda: F.nll_loss(h, target), "mse_loss.h": lambda: F.mse_loss(h, h), "l1_loss.h": lambda: F.l1_loss(h, h),
            "bce.h": lambda: F.binary_cross_entropy(h, h), "bce_with_logits.h": lambda: F.binary_cross_entropy_with_logits(h, h),
            "smooth_l1_loss.h": lambda: F.smooth_l1_loss(h, h), "huber_loss.h": lambda: F.huber_loss(h, h), "kl_div.h": lambda: F.kl_div(h, h),
            "cosine_embedding_loss.h": lambda: F.cosine_embedding_loss(h, h, torch.ones(4)),
            "triplet_margin_loss.h": lambda: F.triplet_margin_loss(h, h, h), "prod.h": lambda: h.prod(), "sum.h": lambda: h.sum(),
            "cumsum.h": lambda: h.cumsum(0), "norm.h": lambda: h.norm(), "exp.h": lambda: h.exp(), "gelu.h": lambda: F.gelu(h),
            "cat": lambda: torch.cat([h, x]), "add": lambda: h + x, "max_pool2d.h": lambda: F.max_pool2d(image.to(dtype), 2),
        }
        for name, call in calls.items():
            with torch.autocast("cpu", dtype=dtype):
                out(f"dtype.{half}.{name}", CODES[call().dtype])


def network(out):
    """Two layers and a loss; gradients of float32 parameters."""
    x, target = draw(6, 12), torch.tensor([3, 0, 4, 3, 1, 2])
    parameters = {"w0": draw(16, 12, low=-0.5, high=0.5), "b0": draw(16), "w1": draw(5, 16, low=-0.5, high=0.5), "b1": draw(5)}
    out("net.x", x)
    out("net.target", target)
    for key, value in parameters.items():
        out(f"net.{key}", value)
    for half, dtype in HALVES.items():
        leaves = {key: value.float().requires_grad_() for key, value in parameters.items()}
        with torch.autocast("cpu", dtype=dtype):
            scores = F.linear(F.relu(F.linear(x.float(), leaves["w0"], leaves["b0"])), leaves["w1"], leaves["b1"])
            loss = F.cross_entropy(scores, target)
        loss.backward()
        out(f"net.{half}.scores", scores.double())
        out(f"net.{half}.loss", loss.double())
        for key, leaf in leaves.items():
            out(f"net.{half}.d{key}", leaf.grad.double())


def scaler(out):
    """Steps with gradients of which some are infinite: scale and parameter after each."""
    bad = [0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0]
    out("scaler.bad", torch.tensor(bad))
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.125)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_factor=2.0, backoff_factor=0.25, growth_interval=2)
    scales, values = [], []
    for i, infinite in enumerate(bad):
        optimizer.zero_grad()
        loss = (p * torch.tensor([1.0, float("inf") if infinite else 0.5])).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        values.append(p.detach().clone())
    out("scaler.scales", torch.tensor(scales, dtype=torch.float64))
    out("scaler.values", torch.stack(values).double())
    out("scaler.tracker", scaler.state_dict()["_growth_tracker"])


if __name__ == "__main__":
    torch.manual_seed(1)
    writer = golden.Writer("amp")
    dtypes(writer)
    network(writer)
    scaler(writer)
    writer.save()
