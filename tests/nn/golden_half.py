#!/usr/bin/env python3
"""Writes tests/nn/data/half.txt: layers, losses and optimizers in bfloat16 and float16 beside golden.py's, whose words hold here.

Run it with a Python that has PyTorch 2: python3 tests/nn/golden_half.py [FOLDER].
Inputs are numbers of both half types. Each case has its result and gradients in float64, and in each half type.
"""
import torch
from torch import nn
from torch.nn import functional as F

import golden

golden.SCRIPT = "tests/nn/golden_half.py"
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def draw(*sizes, low=-2.0, high=2.0):
    x = golden.draw(*sizes, low=low, high=high).bfloat16().double()
    return torch.where(x.abs() < 2 ** -6, torch.zeros(()), x)  # smaller ones have too few digits in float16


def gradients(out, name, function, inputs, upstream, dtype):
    leaves = {key: value.to(dtype, copy=True).requires_grad_() if value.is_floating_point() else value
              for key, value in inputs.items()}
    y = function(*leaves.values())
    y.backward(upstream.to(y.dtype))
    out(f"{name}.y", y.double())
    for key, leaf in leaves.items():
        if leaf.requires_grad:
            out(f"{name}.d{key}", leaf.grad.double())


def case(out, name, function, inputs):
    for key, value in inputs.items():
        out(f"{name}.{key}", value)
    with torch.no_grad():
        shape = function(*inputs.values()).shape
    upstream = draw(*shape)
    out(f"{name}.g", upstream)
    gradients(out, name, function, inputs, upstream, torch.float64)
    for half, dtype in HALVES.items():
        gradients(out, f"{name}.{half}", function, inputs, upstream, dtype)


def functions(out):
    case(out, "linear", F.linear, {"x": draw(3, 40), "weight": draw(5, 40), "bias": draw(5)})
    case(out, "matmul", torch.matmul, {"a": draw(2, 3, 30), "b": draw(2, 30, 4)})
    case(out, "conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), groups=2),
         {"x": draw(2, 4, 6, 7), "weight": draw(6, 2, 3, 2), "bias": draw(6)})
    case(out, "conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1),
         {"x": draw(2, 3, 9), "weight": draw(4, 3, 3), "bias": draw(4)})
    case(out, "max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), {"x": draw(2, 3, 7, 6)})
    case(out, "avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), {"x": draw(2, 3, 7, 6)})
    case(out, "adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), {"x": draw(2, 3, 7, 6)})
    case(out, "batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
         {"x": draw(4, 3, 5, 5), "weight": draw(3), "bias": draw(3)})
    mean, var = draw(3), draw(3, low=0.5, high=2)
    out("batch_norm_eval.mean", mean)
    out("batch_norm_eval.var", var)
    case(out, "batch_norm_eval",
         lambda x, w, b: F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), w, b, False),
         {"x": draw(4, 3, 5), "weight": draw(3), "bias": draw(3)})
    case(out, "layer_norm", lambda x, w, b: F.layer_norm(x, (20,), w, b),
         {"x": draw(3, 20), "weight": draw(20), "bias": draw(20)})
    case(out, "rms_norm", lambda x, w: F.rms_norm(x, (20,), w, 1e-5), {"x": draw(3, 20), "weight": draw(20)})
    case(out, "group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), {"x": draw(3, 4, 5), "weight": draw(4), "bias": draw(4)})
    case(out, "softmax", lambda x: x.softmax(-1), {"x": draw(3, 30)})
    case(out, "log_softmax", lambda x: x.log_softmax(-1), {"x": draw(3, 30)})
    case(out, "gelu", F.gelu, {"x": draw(40)})
    case(out, "cumsum", lambda x: x.cumsum(0), {"x": draw(40)})
    case(out, "attention", F.scaled_dot_product_attention,
         {"q": draw(2, 5, 8), "k": draw(2, 6, 8), "v": draw(2, 6, 4)})
    case(out, "cross_entropy", F.cross_entropy, {"x": draw(6, 9), "target": torch.tensor([3, 0, 8, 3, 1, 7])})
    case(out, "mse_loss", F.mse_loss, {"x": draw(6, 9), "target": draw(6, 9)})
    case(out, "bce_with_logits", F.binary_cross_entropy_with_logits, {"x": draw(30), "target": draw(30, low=0, high=1)})
    case(out, "embedding", lambda i, w: F.embedding(i, w), {"index": torch.tensor([1, 3, 1, 0]), "weight": draw(5, 3)})


def recurrent(out):
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
        def run(x, *weights, name=name):
            zeros = torch.zeros(1, x.shape[1], 4, dtype=x.dtype)
            options = (True, 1, 0.0, False, False, False)  # biases, layers, dropout, training, both ways, batch first
            if name == "lstm":
                return torch.lstm(x, (zeros, zeros), weights, *options)[0]
            return (torch.gru if name == "gru" else torch.rnn_tanh)(x, zeros, weights, *options)[0]
        case(out, name, run, {"x": draw(5, 2, 3), "weight_ih": draw(4 * gates, 3, low=-0.8, high=0.8),
                              "weight_hh": draw(4 * gates, 4, low=-0.8, high=0.8),
                              "bias_ih": draw(4 * gates), "bias_hh": draw(4 * gates)})


def transformer(out):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True, dtype=torch.float64)
    names = [key for key, _ in layer.named_parameters()]

    def run(x, *weights):
        fresh = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True, dtype=x.dtype)
        return torch.func.functional_call(fresh, dict(zip(names, weights)), (x,))
    case(out, "encoder", run, {"x": draw(2, 5, 8), **{key: draw(*value.shape, low=-0.5, high=0.5)
                                                      for key, value in layer.named_parameters()}})


def optimizers(out):
    """Three steps, as PyTorch's fused optimizers take them: in float, rounded at the end of each."""
    start, steps = draw(40), [draw(40) for _ in range(3)]
    out("optim.start", start)
    for i, g in enumerate(steps):
        out(f"optim.g{i}", g)
    cases = {"SGD": dict(lr=0.1, momentum=0.9, weight_decay=0.1, fused=True), "Adam": dict(lr=0.1, fused=True),
             "AdamW": dict(lr=0.1, fused=True), "Adagrad": dict(lr=0.1, fused=True), "RMSprop": dict(lr=0.1),
             "Adamax": dict(lr=0.1)}
    for name, options in cases.items():
        for half, dtype in HALVES.items():
            p = start.to(dtype).requires_grad_()
            optimizer = getattr(torch.optim, name)([p], **options)
            for i, g in enumerate(steps):
                p.grad = g.to(dtype)
                optimizer.step()
                out(f"optim.{name}.{half}.p{i}", p.double())


if __name__ == "__main__":
    torch.manual_seed(1)
    writer = golden.Writer("half")
    functions(writer)
    recurrent(writer)
    transformer(writer)
    optimizers(writer)
    writer.save()
