#!/usr/bin/env python3
"""Writes tests/nn/data of transposed convolutions, pooling of sequences and what else came later, beside golden.py, whose words hold here.

Run it with a Python that has PyTorch 2: python3 tests/nn/golden_more.py [FOLDER].
"""
import torch
from torch import nn
from torch.distributions import Categorical, MultivariateNormal, kl_divergence
from torch.nn import functional as F

import golden
from golden import draw, value_and_gradients
from golden_layers import fill, with_parameters

golden.SCRIPT = "tests/nn/golden_more.py"


def transposed():
    golden.RANDOM.manual_seed(41)
    out = golden.Writer("conv_transpose")
    for name, module, sizes in (
        ("plain", nn.ConvTranspose2d(3, 2, 3), (2, 3, 3, 4)),
        ("options", nn.ConvTranspose2d(4, 6, (2, 3), stride=(3, 2), padding=(1, 2), output_padding=(2, 1), dilation=(1, 2), groups=2),
         (2, 4, 3, 4)),
        ("dilated", nn.ConvTranspose2d(2, 3, 2, stride=1, output_padding=1, dilation=2, bias=False), (1, 2, 3, 2)),
        ("unbatched", nn.ConvTranspose2d(2, 1, 2, stride=2), (2, 2, 3)),
        ("line", nn.ConvTranspose1d(3, 2, 3), (2, 3, 5)),
        ("line_options", nn.ConvTranspose1d(4, 6, 3, stride=3, padding=2, output_padding=2, dilation=2, groups=2), (2, 4, 5)),
        ("line_unbatched", nn.ConvTranspose1d(2, 3, 2, bias=False), (2, 4)),
    ):
        fill(module)
        with_parameters(out, name, module, {"x": draw(*sizes)})
    out.save()


def pooling():
    golden.RANDOM.manual_seed(42)
    out = golden.Writer("pooling1d")
    x, image = draw(2, 3, 9), draw(2, 2, 5, 7)
    out("x", x)
    out("image", image)
    for name, function in (
        ("max", lambda a: F.max_pool1d(a, 2)),
        ("max_options", lambda a: F.max_pool1d(a, 3, stride=2, padding=1, dilation=2, ceil_mode=True)),
        ("avg", lambda a: F.avg_pool1d(a, 3)),
        ("avg_options", lambda a: F.avg_pool1d(a, 4, stride=2, padding=2, ceil_mode=True, count_include_pad=False)),
        ("adaptive_avg", lambda a: F.adaptive_avg_pool1d(a, 4)),
        ("adaptive_max", lambda a: F.adaptive_max_pool1d(a, 4)),
    ):
        value_and_gradients(out, name, function, {"x": x})
    for name, size in (("adaptive_max2d", (3, 4)), ("adaptive_max2d_larger", (7, 2))):
        value_and_gradients(out, name, lambda a, s=size: F.adaptive_max_pool2d(a, s), {"image": image})
    value_and_gradients(out, "rrelu", lambda a: F.rrelu(a, 0.1, 0.5), {"x": x})
    out.save()


def lbfgs():
    """Twenty steps on a valley that bends (Rosenbrock's, of p) beside a well (of q)."""
    golden.RANDOM.manual_seed(43)
    out = golden.Writer("lbfgs")
    start = [draw(4, low=-1, high=1), draw(2, 3, low=-1, high=1)]
    for i, value in enumerate(start):
        out(f"start{i}", value)
    for name, options in (
        ("fixed", dict(lr=0.05, max_iter=3)),
        ("history", dict(lr=0.1, max_iter=4, max_eval=3, history_size=2, tolerance_change=1e-12)),
        ("strong_wolfe", dict(max_iter=2, line_search_fn="strong_wolfe")),
        ("strong_wolfe_history", dict(lr=0.5, max_iter=1, max_eval=6, history_size=3, line_search_fn="strong_wolfe")),
        ("strong_wolfe_long", dict(max_iter=4, line_search_fn="strong_wolfe", lr=30)),
        ("maximize", dict(max_iter=2, line_search_fn="strong_wolfe", maximize=True)),
    ):
        p, q = (value.clone().requires_grad_() for value in start)
        optimizer = torch.optim.LBFGS([p, q], **options)

        def closure():
            optimizer.zero_grad()
            loss = (10 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2).sum() + ((q * q).sum() - 1) ** 2
            if options.get("maximize"):
                loss = -loss
            loss.backward()
            return loss

        losses, ps, qs = [], [], []
        for _ in range(20):
            losses.append(float(optimizer.step(closure).detach()))
            ps.append(p.detach().clone())
            qs.append(q.detach().clone())
        state = optimizer.state[p]
        out(f"{name}.losses", torch.tensor(losses))
        out(f"{name}.params0", torch.stack(ps))
        out(f"{name}.params1", torch.stack(qs))
        out(f"{name}.counts", torch.tensor([state["func_evals"], state["n_iter"], len(state["old_dirs"])]))
    out.save()


def packed():
    golden.RANDOM.manual_seed(44)
    out = golden.Writer("packed")
    lengths = torch.tensor([2, 5, 1, 3, 3])
    out("lengths", lengths)
    pack, pad = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence
    for name, kind, options in (
        ("lstm", nn.LSTM, dict()), ("gru", nn.GRU, dict()), ("rnn", nn.RNN, dict(bias=False)),
        ("lstm_both", nn.LSTM, dict(num_layers=2, bidirectional=True)), ("gru_both", nn.GRU, dict(num_layers=2, bidirectional=True)),
        ("rnn_both", nn.RNN, dict(num_layers=2, bidirectional=True)), ("lstm_proj", nn.LSTM, dict(num_layers=2, bidirectional=True, proj_size=2)),
    ):
        module = kind(2, 3, **options)
        fill(module)
        states, width = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1), options.get("proj_size", 3)
        inputs = {"x": draw(5, 5, 2), "h": draw(states, 5, width)}
        if kind is nn.LSTM:
            inputs["c"] = draw(states, 5, 3)

        def run(module, x, h, c=None):
            y, last = module(pack(x, lengths, enforce_sorted=False), h if c is None else (h, c))
            last = (last,) if c is None else last
            return torch.cat([t.flatten() for t in (pad(y)[0], *last)])

        def plain(module, x, h, c=None):
            y, last = module(x, h if c is None else (h, c))
            last = (last,) if c is None else last
            return torch.cat([t.flatten() for t in (y, *last)])

        with_parameters(out, name, module, inputs, run)
        with_parameters(out, f"{name}_zeros", module, {"x": inputs["x"]},
                        lambda m, x: pad(m(pack(x, lengths, enforce_sorted=False))[0])[0])
        if name == "lstm_proj":
            with_parameters(out, f"{name}_plain", module, inputs, plain)
    out.save()


def soft_targets():
    """Cross entropy where the target says how probable each class is."""
    golden.RANDOM.manual_seed(52)
    out = golden.Writer("soft_targets")
    for shape, sizes in {"rows": (5, 4), "pixels": (2, 4, 2, 1), "one": (4,)}.items():
        scores, weight = draw(*sizes, low=-4, high=4), draw(4, low=0.2, high=3)
        likely = torch.softmax(draw(*sizes), dim=1 if len(sizes) > 1 else 0)
        for key, value in (("scores", scores), ("likely", likely), ("weight", weight)):
            out(f"{shape}.{key}", value)
        for reduction in ("none", "mean", "sum"):
            for which, options in (("plain", dict()), ("all", dict(weight=weight, label_smoothing=0.2))):
                value_and_gradients(out, f"{shape}.{reduction}.{which}", lambda s, t: F.cross_entropy(
                    s, t, reduction=reduction, **options), {"scores": scores, "likely": likely})
    out.save()


def cells_and_decoders():
    golden.RANDOM.manual_seed(53)
    out = golden.Writer("cells_and_decoders")
    for name, module in (("rnn", nn.RNNCell(2, 3)), ("rnn_relu", nn.RNNCell(2, 3, nonlinearity="relu", bias=False)),
                         ("gru", nn.GRUCell(2, 3)), ("lstm", nn.LSTMCell(2, 3)), ("lstm_no_bias", nn.LSTMCell(2, 3, bias=False))):
        fill(module)
        for at, batch in (("", (4,)), ("_one", ())):
            inputs = {"x": draw(*batch, 2), "h": draw(*batch, 3)}
            if "lstm" in name:
                inputs["c"] = draw(*batch, 3)
                with_parameters(out, name + at, module, inputs, lambda m, x, h, c: torch.cat(m(x, (h, c))))
            else:
                with_parameters(out, name + at, module, inputs)
    hidden = torch.ones(3, 3).triu(1).bool()
    padding = torch.tensor([[False, False, False, True, True], [False] * 5])
    out("hidden", hidden.double())
    out("padding", padding.double())
    for name, options in (("decoder", dict()), ("decoder_options", dict(
            norm_first=True, activation="gelu", batch_first=True, bias=False, layer_norm_eps=1e-3))):
        first = options.get("batch_first")
        inputs = {"x": draw(2, 3, 6) if first else draw(3, 2, 6), "memory": draw(2, 5, 6) if first else draw(5, 2, 6)}
        module = nn.TransformerDecoderLayer(6, 2, 8, dropout=0.0, **options)
        fill(module)
        with_parameters(out, name, module, inputs)
        with_parameters(out, f"{name}_masks", module, inputs, lambda m, x, memory: m(
            x, memory, tgt_mask=hidden, memory_key_padding_mask=padding))
    module = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 3, dropout=0.0), 2, nn.LayerNorm(4))
    fill(module)
    with_parameters(out, "decoders", module, {"x": draw(3, 2, 4), "memory": draw(4, 2, 4)})
    out.save()


def ctc():
    """Gradients are of what log_softmax reads: PyTorch's own of log_probs is not the derivative."""
    golden.RANDOM.manual_seed(45)
    out = golden.Writer("ctc")
    logits = draw(7, 4, 5)
    targets = torch.tensor([[1, 2, 2, 4], [3, 3, 3, 1], [2, 1, 0, 0], [4, 1, 4, 1]])
    inputs, lengths = torch.tensor([7, 5, 4, 2]), torch.tensor([4, 3, 0, 3])  # the last does not fit
    flat = torch.cat([row[:n] for row, n in zip(targets, lengths)])
    for name, value in (("logits", logits), ("targets", targets), ("flat", flat), ("input_lengths", inputs), ("target_lengths", lengths)):
        out(name, value)
    out("impossible", torch.isinf(F.ctc_loss(logits.log_softmax(2), targets, inputs, lengths, reduction="none")).to(torch.int64))
    for reduction in ("none", "mean", "sum"):
        value_and_gradients(out, reduction, lambda x, r=reduction: F.ctc_loss(
            x.log_softmax(2), flat, inputs, lengths, reduction=r, zero_infinity=True), {"logits": logits})
    shifted = torch.where(targets == 0, 4, targets - 1)
    value_and_gradients(out, "blank_last", lambda x: F.ctc_loss(
        x.log_softmax(2), shifted, inputs, lengths, blank=4, zero_infinity=True), {"logits": logits})
    value_and_gradients(out, "unbatched", lambda x: F.ctc_loss(
        x.log_softmax(1), targets[0], torch.tensor(7), torch.tensor(4)), {"logits": logits[:, 0]})
    out.save()


def multivariate():
    golden.RANDOM.manual_seed(46)
    out = golden.Writer("multivariate_normal")
    raw, other = draw(2, 3, 3), draw(3, 3)
    tril = lambda x: torch.tril(x, -1) + torch.diag_embed(torch.diagonal(x, dim1=-2, dim2=-1).abs() + 0.3)
    loc, loc2, value, diag, diag2 = draw(2, 3), draw(3), draw(4, 2, 3), draw(2, 3, low=0.3, high=2), draw(3, low=0.3, high=2)
    scale, scale2 = tril(raw).float().double(), tril(other).float().double()
    probs, logits = draw(2, 4, low=0.1, high=1), draw(2, 4)
    for name, tensor in (("loc", loc), ("loc2", loc2), ("value", value), ("diag", diag), ("diag2", diag2), ("scale", scale),
                         ("scale2", scale2), ("probs", probs), ("logits", logits)):
        out(name, tensor)
    full = lambda l, s: MultivariateNormal(l, scale_tril=s, validate_args=False)
    from_diag = lambda l, d: full(l, torch.diag_embed(d))
    value_and_gradients(out, "log_prob", lambda l, s, v: full(l, torch.tril(s)).log_prob(v), {"loc": loc, "scale": scale, "value": value})
    value_and_gradients(out, "entropy", lambda s: full(loc, torch.tril(s)).entropy(), {"scale": scale})
    value_and_gradients(out, "diag.log_prob", lambda l, d, v: from_diag(l, d).log_prob(v), {"loc": loc, "diag": diag, "value": value})
    value_and_gradients(out, "diag.entropy", lambda d: from_diag(loc, d).entropy(), {"diag": diag})
    value_and_gradients(out, "kl", lambda l, s, m, t: kl_divergence(full(l, torch.tril(s)), full(m, torch.tril(t))),
                        {"loc": loc, "scale": scale, "loc2": loc2, "scale2": scale2})
    value_and_gradients(out, "kl.diag", lambda l, d, m, e: kl_divergence(from_diag(l, d), from_diag(m, e)),
                        {"loc": loc, "diag": diag, "loc2": loc2, "diag2": diag2})
    value_and_gradients(out, "kl.mixed", lambda l, d, m, t: kl_divergence(from_diag(l, d), full(m, torch.tril(t))),
                        {"loc": loc, "diag": diag, "loc2": loc2, "scale2": scale2})
    value_and_gradients(out, "kl.categorical", lambda p, q: kl_divergence(Categorical(probs=p), Categorical(logits=q)),
                        {"probs": probs, "logits": logits})
    out.save()


def resizing_of_lines_and_volumes():
    golden.RANDOM.manual_seed(47)
    out = golden.Writer("upsample_other")
    given = {"line": draw(2, 3, 5), "volume": draw(2, 1, 3, 2, 4)}
    for name, x in given.items():
        out(name, x)
    cases = {
        "line_nearest": dict(size=7), "line_nearest_by": dict(scale_factor=0.7), "line_exact": dict(size=8, mode="nearest-exact"),
        "line_linear": dict(size=8, mode="linear"), "line_corners": dict(size=9, mode="linear", align_corners=True),
        "line_linear_by": dict(scale_factor=1.7, mode="linear"), "line_linear_less": dict(size=2, mode="linear"),
        "volume_nearest": dict(size=(4, 3, 2)), "volume_exact": dict(scale_factor=1.6, mode="nearest-exact"),
        "volume_linear": dict(size=(4, 3, 2), mode="trilinear"), "volume_all": dict(size=5, mode="trilinear"),
        "volume_corners": dict(size=(2, 4, 6), mode="trilinear", align_corners=True),
        "volume_linear_by": dict(scale_factor=(1.5, 2, 0.6), mode="trilinear"),
    }
    for name, options in cases.items():
        key = name.split("_")[0]
        value_and_gradients(out, name, lambda a: F.interpolate(a, **options), {key: given[key]})
    out.save()


def places_and_sizes():
    """Where adaptive pooling found its maxima, the size asked of a transposed convolution, an encoder's last normalisation."""
    golden.RANDOM.manual_seed(48)
    out = golden.Writer("places_and_sizes")
    image, line = draw(2, 2, 5, 7), draw(2, 3, 9)
    image[0, 0] = 1  # ties
    out("image", image)
    out("line", line)
    for name, size in (("fewer", (3, 4)), ("more", (7, 2)), ("whole", (1, 1))):
        out(f"places_{name}", F.adaptive_max_pool2d(image, size, return_indices=True)[1])
    out("places_line", F.adaptive_max_pool1d(line, 4, return_indices=True)[1])
    for name, module, sizes, wanted in (
        ("size", nn.ConvTranspose2d(2, 3, (2, 3), stride=(3, 2), padding=(1, 0)), (2, 2, 3, 2), (7, 6)),
        ("size_line", nn.ConvTranspose1d(2, 3, 3, stride=3, padding=1, output_padding=1), (2, 2, 4), (12,)),
    ):
        fill(module)
        with_parameters(out, name, module, {"x": draw(*sizes)}, lambda m, a: m(a, output_size=wanted))
    layer = nn.TransformerEncoderLayer(4, 2, 3, dropout=0.0, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4, eps=1e-3), enable_nested_tensor=False)
    fill(encoder)
    with_parameters(out, "encoder", encoder, {"x": draw(3, 2, 4)})
    out.save()


def adaptive_softmax():
    golden.RANDOM.manual_seed(49)
    out = golden.Writer("adaptive_softmax")
    target = torch.tensor([3, 19, 6, 0, 11, 12, 6])
    out("target", target)
    for name, module in (("two", nn.AdaptiveLogSoftmaxWithLoss(9, 20, [6, 12], div_value=2.0, head_bias=True)),
                         ("one", nn.AdaptiveLogSoftmaxWithLoss(4, 20, [15]))):
        fill(module)
        if name == "two":
            module.head.bias.data[6:] += 2  # so that some predictions are of clusters
        x = draw(len(target), module.in_features)
        with_parameters(out, name, module, {"x": x}, lambda m, a: m(a, target).output)
        out(f"{name}.loss", module(x, target).loss)
        out(f"{name}.log_prob", module.log_prob(x))
        out(f"{name}.predict", module.predict(x))
    out.save()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for family in (transposed, pooling, lbfgs, packed, ctc, multivariate, resizing_of_lines_and_volumes,
                   places_and_sizes, soft_targets, cells_and_decoders,
                   adaptive_softmax):
        family()
