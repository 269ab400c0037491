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
            with_parameters(out, f"{name}_cross", module, {"x": x, "kv": y}, lambda m, a, b: both(m, a, b, b * 2))
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


def more_activations():
    out = golden.Writer("more_activations")
    x, wide = draw(3, 4, 2, low=-4, high=4), draw(30, low=-8, high=8)
    out("x", x)
    out("wide", wide)
    cases = {
        "leaky_relu": nn.LeakyReLU(), "leaky_relu_0.2": nn.LeakyReLU(0.2), "elu": nn.ELU(), "elu_0.5": nn.ELU(0.5),
        "celu": nn.CELU(), "celu_0.5": nn.CELU(0.5), "selu": nn.SELU(), "mish": nn.Mish(), "softplus": nn.Softplus(),
        "softplus_2": nn.Softplus(beta=2, threshold=3), "softsign": nn.Softsign(), "logsigmoid": nn.LogSigmoid(),
        "tanhshrink": nn.Tanhshrink(), "softshrink": nn.Softshrink(), "softshrink_1": nn.Softshrink(1.0),
        "hardshrink": nn.Hardshrink(), "hardtanh": nn.Hardtanh(), "hardtanh_2": nn.Hardtanh(-0.5, 2.0), "relu6": nn.ReLU6(),
        "hardsigmoid": nn.Hardsigmoid(), "hardswish": nn.Hardswish(), "threshold": nn.Threshold(0.5, -1.0),
        "softmin": nn.Softmin(0),
    }
    for name, module in cases.items():
        value_and_gradients(out, name, module, {"wide": wide})
    value_and_gradients(out, "glu", nn.GLU(1), {"x": x})
    value_and_gradients(out, "glu_last", nn.GLU(), {"x": x})
    for name, count in (("prelu", 1), ("prelu_channels", 4)):
        weight = draw(count)
        out(f"{name}.weight", weight)
        value_and_gradients(out, name, F.prelu, {"x": x, "weight": weight})
    out.save()


def more_losses():
    out = golden.Writer("more_losses")
    x, y, logits = draw(4, 3, low=0.02, high=0.98), draw(4, 3, low=0, high=1), draw(4, 3, low=-5, high=5)
    x[0, 0], y[0, 0], x[0, 1], y[0, 1] = 0.0, 1.0, 1.0, 0.25
    weight, positive = draw(4, 1, low=0.2, high=2), draw(3, low=0.2, high=3)
    a, b, c = draw(4, 3), draw(4, 3), draw(4, 3)
    sign = torch.tensor([1, -1, 1, -1])
    log_probs, probs = draw(4, 3).log_softmax(1), draw(4, 3).softmax(1).float().double()
    log_probs = log_probs.float().double()
    probs[1, 1] = 0
    for name, value in (("x", x), ("y", y), ("logits", logits), ("weight", weight), ("positive", positive), ("a", a), ("b", b),
                        ("c", c), ("sign", sign), ("log_probs", log_probs), ("probs", probs)):
        out(name, value)
    for reduction in ("none", "mean", "sum"):
        def case(name, function, inputs, **options):
            value_and_gradients(out, f"{name}.{reduction}", lambda *args: function(*args, reduction=reduction, **options), inputs)
        pair = {"a": a, "b": b}
        case("bce", lambda x, **o: F.binary_cross_entropy(x, y, **o), {"x": x})
        case("bce_weight", lambda x, **o: F.binary_cross_entropy(x, y, weight=weight, **o), {"x": x})
        bce_logits = F.binary_cross_entropy_with_logits
        case("bce_logits", bce_logits, {"logits": logits, "y": y})
        case("bce_logits_weights", lambda *args, **o: bce_logits(*args, weight=weight, pos_weight=positive, **o), {"logits": logits, "y": y})
        case("l1", F.l1_loss, pair)
        case("smooth_l1", F.smooth_l1_loss, pair)
        case("smooth_l1_half", F.smooth_l1_loss, pair, beta=0.5)
        case("huber", F.huber_loss, pair)
        case("huber_half", F.huber_loss, pair, delta=0.5)
        case("kl", lambda x, **o: F.kl_div(x, probs, **o), {"log_probs": log_probs})
        case("kl_log", lambda *args, **o: F.kl_div(*args, log_target=True, **o), {"log_probs": log_probs, "a": a})
        case("cosine", lambda p, q, **o: F.cosine_embedding_loss(p, q, sign, margin=-0.2, **o), pair)
        triple = {"a": a, "b": b, "c": c}
        case("triplet", F.triplet_margin_loss, triple)
        case("triplet_options", F.triplet_margin_loss, triple, margin=2.0, p=3, eps=1e-3, swap=True)
    value_and_gradients(out, "kl.batchmean", lambda x: F.kl_div(x, probs, reduction="batchmean"), {"log_probs": log_probs})
    value_and_gradients(out, "cosine_similarity", F.cosine_similarity, {"a": a, "b": b})
    out.save()


def distributions():
    out = golden.Writer("distributions")
    loc, scale, low, width = draw(2, 3), draw(3, low=0.3, high=2), draw(2, 3), draw(2, 3, low=0.5, high=2)
    value, probs, logits = draw(2, 3), draw(2, 3, low=0.1, high=0.9), draw(2, 3, low=-3, high=3)
    inside = (low + width * draw(2, 3, low=0.1, high=0.9)).float().double()
    bits = (draw(2, 3) > 0).double()
    loc2, scale2, probs2 = draw(2, 3), draw(3, low=0.3, high=2), draw(2, 3, low=0.1, high=0.9)
    for name, tensor in (("loc", loc), ("scale", scale), ("low", low), ("width", width), ("value", value), ("probs", probs),
                         ("logits", logits), ("inside", inside), ("bits", bits), ("loc2", loc2), ("scale2", scale2), ("probs2", probs2)):
        out(name, tensor)
    normal = {"loc": loc, "scale": scale}
    value_and_gradients(out, "normal.log_prob", lambda l, s, v: Normal(l, s).log_prob(v), {**normal, "value": value})
    value_and_gradients(out, "normal.entropy", lambda s: Normal(loc, s).entropy(), {"scale": scale})
    value_and_gradients(out, "normal.cdf", lambda l, s, v: Normal(l, s).cdf(v), {**normal, "value": value})
    uniform = {"low": low, "width": width}
    value_and_gradients(out, "uniform.log_prob", lambda l, w: Uniform(l, l + w).log_prob(inside), uniform)
    value_and_gradients(out, "uniform.entropy", lambda l, w: Uniform(l, l + w).entropy(), uniform)
    value_and_gradients(out, "bernoulli.log_prob", lambda p: Bernoulli(probs=p).log_prob(bits), {"probs": probs})
    value_and_gradients(out, "bernoulli.entropy", lambda p: Bernoulli(probs=p).entropy(), {"probs": probs})
    value_and_gradients(out, "bernoulli.logits_log_prob", lambda p: Bernoulli(logits=p).log_prob(bits), {"logits": logits})
    value_and_gradients(out, "bernoulli.logits_entropy", lambda p: Bernoulli(logits=p).entropy(), {"logits": logits})
    value_and_gradients(out, "kl.normal", lambda l, s, m, t: kl_divergence(Normal(l, s), Normal(m, t)),
                        {**normal, "loc2": loc2, "scale2": scale2})
    value_and_gradients(out, "kl.bernoulli", lambda p, q: kl_divergence(Bernoulli(p), Bernoulli(q)), {"probs": probs, "probs2": probs2})
    value_and_gradients(out, "kl.uniform", lambda l, w: kl_divergence(Uniform(l, l + w), Uniform(l - 0.5, l + 2 * w)), uniform)
    out.save()


def resizing_by_more_pixels():
    out = golden.Writer("upsample_more")
    x = draw(2, 3, 4, 5)
    out("x", x)
    cases = {
        "exact_size": dict(size=(7, 3), mode="nearest-exact"), "exact_uneven": dict(scale_factor=(1.5, 0.6), mode="nearest-exact"),
        "bicubic_2": dict(scale_factor=2, mode="bicubic"), "bicubic_size": dict(size=(7, 3), mode="bicubic"),
        "bicubic_corners": dict(size=(7, 9), mode="bicubic", align_corners=True), "bicubic_one": dict(size=(1, 1), mode="bicubic"),
        "bicubic_uneven": dict(scale_factor=(1.7, 0.6), mode="bicubic"),
    }
    for name, options in cases.items():
        value_and_gradients(out, name, lambda a: F.interpolate(a, **options), {"x": x})
    value_and_gradients(out, "softmax2d", nn.Softmax2d(), {"x": x})
    same = dict(scale_factor=(1, 1.15))  # another place for each pixel, though there are as many
    value_and_gradients(out, "exact_same", lambda a: F.interpolate(a, mode="nearest-exact", **same), {"x": x})
    out("bicubic_same.y", F.interpolate(x, mode="bicubic", **same))  # PyTorch's gradient is of the identity
    out.save()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for family in (norms, convolutions, recurrent, attention, resizing, more_activations, more_losses, distributions,
                   resizing_by_more_pixels):
        family()
