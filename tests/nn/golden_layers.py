#!/usr/bin/env python3
"""Writes tests/nn/data of layers, losses, activations and distributions beside golden.py's, whose words hold here.

Run it with a Python that has PyTorch 2: python3 tests/nn/golden_layers.py [FOLDER].
"""
import torch
from torch import nn
from torch.distributions import Bernoulli, Normal, Uniform, kl_divergence
from torch.nn import functional as F

import golden
from golden import draw, value_and_gradients

golden.SCRIPT = "tests/nn/golden_layers.py"


def fill(module):
    for parameter in module.parameters():
        parameter.data = draw(*parameter.shape, low=-0.8, high=0.8)


def parameters(out, name, module):
    for key, parameter in module.named_parameters():
        out(f"{name}.{key}", parameter)


def with_parameters(out, name, module, inputs, forward=None):
    """Inputs, parameters, and the result with the gradients of both."""
    names = [key for key, _ in module.named_parameters()]
    tensors = dict(inputs)
    for key, parameter in module.named_parameters():
        tensors[key] = parameter.detach()
    for key, value in tensors.items():
        out(f"{name}.{key}", value)

    def run(*values):
        given, weights = values[:len(inputs)], values[len(inputs):]
        call = forward or (lambda call_module, *args: call_module(*args))
        return torch.func.functional_call(Caller(module, call), {f"module.{k}": v for k, v in zip(names, weights)}, given)

    value_and_gradients(out, name, run, tensors)


class Caller(nn.Module):
    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *args):
        return self.call(self.module, *args)


def norms():
    out = golden.Writer("layer_norm")
    for name, module, sizes in (
        ("layer", nn.LayerNorm(4), (2, 3, 4)),
        ("layer_two", nn.LayerNorm((3, 4), eps=0.1), (2, 3, 4)),
        ("layer_plain", nn.LayerNorm(4, elementwise_affine=False), (3, 4)),
        ("layer_no_bias", nn.LayerNorm(5, bias=False), (5,)),
        ("layer_long", nn.LayerNorm(300), (5, 300)),
        ("rms", nn.RMSNorm(4), (2, 3, 4)),
        ("rms_eps", nn.RMSNorm((3, 4), eps=0.1), (2, 3, 4)),
        ("group", nn.GroupNorm(2, 6), (2, 6, 3, 2)),
        ("group_plain", nn.GroupNorm(3, 6, affine=False, eps=0.1), (3, 6)),
    ):
        fill(module)
        with_parameters(out, name, module, {"x": draw(*sizes)})
    for name, module, sizes in (("batch1d", nn.BatchNorm1d(3), (4, 3)), ("batch1d_long", nn.BatchNorm1d(3, eps=0.1), (2, 3, 5))):
        fill(module)
        with_parameters(out, name, module, {"x": draw(*sizes)})
    out.save()


def convolutions():
    out = golden.Writer("conv1d")
    for name, module, sizes in (
        ("plain", nn.Conv1d(3, 4, 3), (2, 3, 6)),
        ("options", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False), (2, 4, 9)),
        ("unbatched", nn.Conv1d(2, 3, 2, padding=1), (2, 5)),
    ):
        fill(module)
        with_parameters(out, name, module, {"x": draw(*sizes)})
    out.save()


def recurrent():
    out = golden.Writer("rnn")
    for kind in (nn.GRU, nn.RNN):
        for case, options, batched in (
            ("plain", dict(), True), ("no_bias", dict(bias=False), True), ("layers", dict(num_layers=2, batch_first=True), True),
            ("bidirectional", dict(num_layers=2, bidirectional=True), True), ("unbatched", dict(), False),
            ("relu", dict(nonlinearity="relu"), True),
        ):
            if case == "relu" and kind is nn.GRU:
                continue
            module = kind(2, 3, **options)
            fill(module)
            x = draw(3, 4, 2) if batched else draw(4, 2)
            states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
            batch = 3 if options.get("batch_first") else 4
            h = draw(states, batch, 3) if batched else draw(states, 3)
            name = f"{kind.__name__.lower()}_{case}"
            with_parameters(out, name, module, {"x": x, "h": h}, lambda m, a, b: torch.cat([t.flatten() for t in m(a, b)]))
            with_parameters(out, f"{name}_zeros", module, {"x": x}, lambda m, a: torch.cat([t.flatten() for t in m(a)]))
    out.save()


def attention():
    out = golden.Writer("attention")
    q, k, v = draw(2, 3, 4, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 2)
    seen = torch.rand(4, 6, generator=golden.RANDOM) > 0.4
    seen[0] = True
    added = draw(3, 4, 6)
    for key, value in (("q", q), ("k", k), ("v", v), ("seen", seen.to(torch.int64)), ("added", added)):
        out(key, value)
    inputs = {"q": q, "k": k, "v": v}
    sdpa = F.scaled_dot_product_attention
    value_and_gradients(out, "plain", lambda *a: sdpa(*a), inputs)
    value_and_gradients(out, "causal", lambda *a: sdpa(*a, is_causal=True), inputs)
    value_and_gradients(out, "scaled", lambda *a: sdpa(*a, scale=0.3), inputs)
    value_and_gradients(out, "bool_mask", lambda *a: sdpa(*a, attn_mask=seen), inputs)
    value_and_gradients(out, "added_mask", lambda *a: sdpa(*a, attn_mask=added), inputs)

    padding = torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]).bool()
    hidden = torch.triu(torch.ones(4, 4), 1).bool()
    out("padding", padding.to(torch.int64))
    out("hidden", hidden.to(torch.int64))
    for name, options, masks in (
        ("mha", dict(), dict()), ("mha_first", dict(batch_first=True, bias=False), dict()),
        ("mha_masks", dict(), dict(key_padding_mask=padding, attn_mask=hidden)),
    ):
        module = nn.MultiheadAttention(6, 2, **options)
        fill(module)
        x = draw(3, 4, 6) if options.get("batch_first") else draw(4, 3, 6)
        both = lambda m, *a: torch.cat([t.flatten() for t in m(*a, **masks)])
        with_parameters(out, f"{name}_self", module, {"x": x}, lambda m, a: both(m, a, a, a))
        if not masks:
            y = draw(3, 5, 6) if options.get("batch_first") else draw(5, 3, 6)
            with_parameters(out, f"{name}_cross", module, {"x": x, "y": y}, lambda m, a, b: both(m, a, b, b * 2))
    for name, options in (("encoder", dict()), ("encoder_options", dict(norm_first=True, activation="gelu", batch_first=True, bias=False,
                                                                        layer_norm_eps=1e-3))):
        module = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, **options)
        fill(module)
        x = draw(3, 4, 6) if options.get("batch_first") else draw(4, 3, 6)
        with_parameters(out, name, module, {"x": x})
        with_parameters(out, f"{name}_masks", module, {"x": x}, lambda m, a: m(a, src_mask=hidden, src_key_padding_mask=padding))
    out.save()


def resizing():
    out = golden.Writer("upsample")
    x = draw(2, 3, 4, 5)
    out("x", x)
    cases = {
        "nearest_2": dict(scale_factor=2), "nearest_size": dict(size=(7, 3)), "nearest_uneven": dict(scale_factor=(1.5, 0.6)),
        "bilinear_2": dict(scale_factor=2, mode="bilinear"), "bilinear_size": dict(size=(7, 3), mode="bilinear"),
        "bilinear_corners": dict(size=(7, 9), mode="bilinear", align_corners=True),
        "bilinear_uneven": dict(scale_factor=(1.7, 0.6), mode="bilinear"), "bilinear_one": dict(size=(1, 1), mode="bilinear"),
    }
    for name, options in cases.items():
        value_and_gradients(out, name, lambda a: F.interpolate(a, **options), {"x": x})
    out.save()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for family in (norms, convolutions, recurrent, attention, resizing):
        family()
