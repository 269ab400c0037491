#!/usr/bin/env python3
"""Writes tests/nn/data/*.txt: values, gradients and optimizer steps as PyTorch computes them in float64.

Run it with a Python that has PyTorch: python3 tests/nn/golden.py [FOLDER]. Files say which PyTorch made them;
scripts/check_golden.sh compares them with another one.
Inputs are rounded to float32, so that the same files check float32 too. Format: tests/golden.h.
"""
import math
import pathlib
import sys

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

DATA = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "data"
RANDOM = torch.Generator().manual_seed(2023)
SCRIPT = "tests/nn/golden.py"  # others that use this one's functions say so


def draw(*sizes, low=-2.0, high=2.0):
    return (torch.rand(sizes, generator=RANDOM, dtype=torch.float64) * (high - low) + low).float().double()


class Writer:
    def __init__(self, name):
        self.path = DATA / f"{name}.txt"
        self.lines = [f"# Made by {SCRIPT} with PyTorch {torch.__version__}"]

    def __call__(self, name, value):
        value = torch.as_tensor(value).detach()
        is_int = value.dtype == torch.int64
        self.lines.append(" ".join([name, "int64" if is_int else "float64", *map(str, value.shape)]))
        self.lines.append(" ".join(str(v) if is_int else repr(v) for v in value.flatten().tolist()))

    def save(self):
        DATA.mkdir(exist_ok=True)
        self.path.write_text("\n".join(self.lines) + "\n")


def value_and_gradients(out, name, function, inputs, upstream=None):
    """Writes function(*inputs) and, for each of `inputs` (name -> tensor), its gradient."""
    leaves = {key: tensor.clone().requires_grad_() for key, tensor in inputs.items()}
    y = function(*leaves.values())
    upstream = draw(*y.shape) if upstream is None else upstream
    y.backward(upstream)
    out(f"{name}.y", y)
    out(f"{name}.g", upstream)
    for key, leaf in leaves.items():
        out(f"{name}.d{key}", leaf.grad)


def linear():
    out = Writer("linear")
    x, weight, bias = draw(2, 3, 4), draw(5, 4), draw(5)
    for name, value in (("x", x), ("weight", weight), ("bias", bias)):
        out(name, value)
    value_and_gradients(out, "with_bias", F.linear, {"x": x, "weight": weight, "bias": bias})
    value_and_gradients(out, "without_bias", F.linear, {"x": x, "weight": weight})
    value_and_gradients(out, "vector", F.linear, {"x": x[0, 0], "weight": weight, "bias": bias})
    out.save()


def activations():
    out = Writer("activations")
    x = draw(3, 5, low=-4, high=4)
    out("x", x)
    cases = {
        "relu": nn.ReLU(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(), "silu": nn.SiLU(), "gelu": nn.GELU(),
        "gelu_tanh": nn.GELU(approximate="tanh"), "softmax": nn.Softmax(-1), "softmax0": nn.Softmax(0),
        "log_softmax": nn.LogSoftmax(-1),
    }
    for name, module in cases.items():
        value_and_gradients(out, name, module, {"x": x})
    out.save()


def conv():
    out = Writer("conv")
    cases = {
        "plain": dict(x=(2, 3, 5, 4), weight=(4, 3, 3, 2), bias=True),
        "options": dict(x=(2, 4, 6, 7), weight=(6, 2, 3, 2), bias=True, stride=(2, 1), padding=(1, 2), dilation=(1, 2),
                        groups=2),
        "one_place": dict(x=(3, 4, 3, 3), weight=(2, 4, 1, 1), bias=False),
        "one_place_stride": dict(x=(2, 4, 5, 5), weight=(2, 4, 1, 1), bias=False, stride=2),
        "depthwise": dict(x=(1, 3, 4, 4), weight=(6, 1, 3, 3), bias=True, padding=1, groups=3),
        "unbatched": dict(x=(2, 5, 5), weight=(3, 2, 3, 3), bias=True, stride=2, padding=1),
    }
    for name, case in cases.items():
        case = dict(case)
        inputs = {"x": draw(*case.pop("x")), "weight": draw(*case.pop("weight"))}
        if case.pop("bias"):
            inputs["bias"] = draw(inputs["weight"].shape[0])
        for key, value in inputs.items():
            out(f"{name}.{key}", value)
        value_and_gradients(out, name, lambda *args: F.conv2d(*args, **case), inputs)
    out.save()


def pooling():
    out = Writer("pooling")
    x = draw(2, 3, 7, 6)
    out("x", x)
    cases = {
        "max": lambda x: F.max_pool2d(x, 2),
        "max_resnet": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
        "max_options": lambda x: F.max_pool2d(x, (3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 1), ceil_mode=True),
        "avg": lambda x: F.avg_pool2d(x, 2),
        "avg_options": lambda x: F.avg_pool2d(x, (3, 2), stride=2, padding=1, ceil_mode=True),
        "avg_inside": lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
        "avg_divisor": lambda x: F.avg_pool2d(x, 3, stride=1, divisor_override=5),
        "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1),
        "adaptive_uneven": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        "adaptive_larger": lambda x: F.adaptive_avg_pool2d(x, (9, 2)),
    }
    for name, function in cases.items():
        value_and_gradients(out, name, function, {"x": x})
    for name in ("max", "max_resnet"):
        options = dict(kernel_size=2) if name == "max" else dict(kernel_size=3, stride=2, padding=1)
        out(f"{name}.indices", F.max_pool2d(x, return_indices=True, **options)[1])
    out.save()


def batch_norm():
    """Two batches in training, then one in evaluation, by one layer."""
    out = Writer("batch_norm")
    weight, bias = draw(3), draw(3)
    out("weight", weight)
    out("bias", bias)
    batches = [draw(4, 3, 2, 3), draw(2, 3, 5, 1, low=0, high=3), draw(1, 3, 2, 2)]
    for i, batch in enumerate(batches):
        out(f"x{i}", batch)
    cases = {
        "plain": dict(), "options": dict(eps=0.1, momentum=0.3), "cumulative": dict(momentum=None),
        "no_affine": dict(affine=False), "untracked": dict(track_running_stats=False),
    }
    for name, options in cases.items():
        layer = nn.BatchNorm2d(3, **options).double()
        if layer.affine:
            with torch.no_grad():
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
        for i, batch in enumerate(batches):
            layer.train(i < 2)
            x = batch.clone().requires_grad_()
            y = layer(x)
            g = draw(*y.shape)
            layer.zero_grad()
            y.backward(g)
            for key, value in (("y", y), ("g", g), ("dx", x.grad)):
                out(f"{name}{i}.{key}", value)
            if layer.affine:
                out(f"{name}{i}.dweight", layer.weight.grad)
                out(f"{name}{i}.dbias", layer.bias.grad)
            for key, value in layer.named_buffers():
                out(f"{name}{i}.{key}", value)
    out.save()


class Block(nn.Module):
    """torchvision's BasicBlock and Bottleneck in one: the same names, the same arithmetic."""

    def __init__(self, bottleneck, in_channels, width, stride):
        super().__init__()
        out = width * (4 if bottleneck else 1)
        sizes = [(1, in_channels, width), (3, width, width), (1, width, out)] if bottleneck else [
            (3, in_channels, width), (3, width, width)]
        strided = 1 if bottleneck else 0
        self.count = len(sizes)
        for i, (kernel, before, after) in enumerate(sizes):
            conv = nn.Conv2d(before, after, kernel, stride if i == strided else 1, kernel // 2, bias=False)
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(after))
        self.downsample = None
        if stride != 1 or in_channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(in_channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, bottleneck, blocks, base, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, base, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(base)
        channels, width = base, base
        for i, count in enumerate(blocks):
            layers = []
            for j in range(count):
                layers.append(Block(bottleneck, channels, width, 2 if i > 0 and j == 0 else 1))
                channels = width * (4 if bottleneck else 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*layers))
            width *= 2
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(1, 5):
            y = getattr(self, f"layer{i}")(y)
        return self.fc(F.adaptive_avg_pool2d(y, 1).flatten(1))


def formula(index, shape):
    """Parameters that both sides can compute: nothing to store."""
    numel = math.prod(shape)
    scale = 0.3 if len(shape) == 1 else 2 / math.sqrt(numel / shape[0])
    offset = 1.0 if len(shape) == 1 else 0.0
    return torch.tensor([offset + scale * math.sin(index + 0.7 * i) for i in range(numel)]).reshape(shape)


def resnet():
    """Two training steps and an evaluation of narrow networks; sums of gradients and of buffers by name."""
    out = Writer("resnet")
    batches = [30 * formula(50 + i, (2, 3, 40, 32)) for i in range(2)]
    for name, bottleneck, blocks in (("bottleneck", True, (1, 2, 1, 1)), ("basic", False, (2, 1, 1, 1))):
        model = ResNet(bottleneck, blocks, 4, 5).double()
        with torch.no_grad():
            for index, p in enumerate(model.parameters()):
                p.copy_(formula(index, p.shape))
        opt = torch.optim.SGD(model.parameters(), lr=0.05)
        for i, x in enumerate(batches):
            opt.zero_grad()
            y = model(x)
            (y * y).mean().backward()
            out(f"{name}.y{i}", y)
            if i == 0:
                for key, p in model.named_parameters():
                    out(f"{name}.grad.{key}", (p.grad * formula(0, p.shape)).sum())
            opt.step()
        model.eval()
        out(f"{name}.evaluated", model(batches[0]))
        for key, b in model.named_buffers():
            out(f"{name}.buffer.{key}", b.double().sum())
    out.save()


def init():
    out = Writer("init")
    for name in ("linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        out(f"gain.{name}", torch.tensor(nn.init.calculate_gain(name), dtype=torch.float64))
    out("gain.leaky_relu_0.2", torch.tensor(nn.init.calculate_gain("leaky_relu", 0.2), dtype=torch.float64))
    for name, sizes in (("matrix", (6, 3)), ("filters", (8, 4, 3, 5))):
        out(f"fans.{name}", torch.tensor(nn.init._calculate_fan_in_and_fan_out(torch.empty(sizes))))
    out.save()


def categorical():
    out = Writer("categorical")
    probs = draw(2, 3, 4, low=0.05, high=3)
    probs[0, 0] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # a certain choice
    probs[0, 1, 2] = 0
    logits = draw(2, 3, 4, low=-3, high=3)
    logits[0, 0] = torch.tensor([500.0, -500.0, 0.0, 499.0])
    logits[1, 2, 3] = -math.inf
    value = torch.randint(0, 4, (2, 3), generator=RANDOM)
    value[0, 0] = 2
    value[1, 2] = 1
    batch = torch.randint(0, 3, (5, 2, 3), generator=RANDOM)
    for name, tensor in (("probs", probs), ("logits", logits), ("value", value), ("values", batch)):
        out(name, tensor)
    for kind, param in (("probs", probs), ("logits", logits)):
        make = lambda p: Categorical(**{kind: p})
        value_and_gradients(out, f"{kind}.log_prob", lambda p: make(p).log_prob(value), {"param": param})
        value_and_gradients(out, f"{kind}.log_probs", lambda p: make(p).log_prob(batch), {"param": param})
        # At a logit of -infinity PyTorch's gradient of the entropy is nan. A class at -800 is as impossible (e^-800 is 0).
        finite = param.clamp(min=-800)
        value_and_gradients(out, f"{kind}.entropy", lambda p: make(p).entropy(), {"param": finite})
        out(f"{kind}.all_probs", make(param).probs)
        out(f"{kind}.all_logits", make(param).logits)
    out.save()


STEPS = 10


def optimizer(name, cases, state_names, more=0):
    """STEPS steps by given gradients for each case: a dict of options, or a list of two (a group for each parameter).

    `more` steps follow, whose gradients are of a generator of their own: other files do not depend on how many there are.

    The second parameter has no gradient in the fourth step. A case with "later_lr" uses that from the sixth step on.
    """
    out = Writer(name.lower())
    start = [draw(3, 2), draw(5)]
    grads = [torch.stack([draw(*p.shape) for _ in range(STEPS)]) for p in start]
    other = torch.Generator().manual_seed(20)
    grads = [torch.cat([g, (torch.rand(more, *p.shape, generator=other) * 4 - 2).float().double()]) for g, p in zip(grads, start)]
    for i in range(2):
        out(f"start{i}", start[i])
        out(f"grads{i}", grads[i])
    for case, options in cases.items():
        params = [p.clone().requires_grad_() for p in start]
        groups = options if isinstance(options, list) else [options, options]
        later = groups[0].get("later_lr")
        groups = [{k: v for k, v in g.items() if k != "later_lr"} for g in groups]
        if isinstance(options, list):
            opt = getattr(torch.optim, name)([{"params": [p], **g} for p, g in zip(params, groups)], lr=1.0)
        else:
            opt = getattr(torch.optim, name)(params, **groups[0])
        taken = [[], []]
        for step in range(STEPS + more):
            if later is not None and step == 5:
                for group in opt.param_groups:
                    group["lr"] = later
            for i, p in enumerate(params):
                p.grad = None if i == 1 and step == 3 else grads[i][step].clone()
            opt.step()
            for i, p in enumerate(params):
                taken[i].append(p.detach().clone())
        for i, p in enumerate(params):
            out(f"{case}.params{i}", torch.stack(taken[i]))
            for key in state_names:
                if opt.state[p].get(key) is not None:
                    out(f"{case}.{key}{i}", opt.state[p][key])
    out.save()


def sgd():
    optimizer("SGD", {
        "plain": dict(lr=0.1),
        "decay": dict(lr=0.1, weight_decay=0.3),
        "momentum": dict(lr=0.1, momentum=0.9),
        "dampening": dict(lr=0.1, momentum=0.9, dampening=0.25),
        "momentum_decay": dict(lr=0.05, momentum=0.8, dampening=0.5, weight_decay=0.1),
        "nesterov": dict(lr=0.1, momentum=0.9, nesterov=True),
        "nesterov_decay": dict(lr=0.1, momentum=0.7, nesterov=True, weight_decay=0.2),
        "maximize": dict(lr=0.1, momentum=0.9, weight_decay=0.1, maximize=True),
        "maximize_plain": dict(lr=0.1, maximize=True),
        "later_lr": dict(lr=0.1, momentum=0.9, later_lr=0.01),
        "groups": [dict(lr=0.1, momentum=0.9), dict(lr=0.02, weight_decay=0.5)],
    }, ["momentum_buffer"], more=10)


def adam():
    optimizer("Adam", {
        "plain": dict(lr=0.1),
        "betas": dict(lr=0.05, betas=(0.5, 0.75), eps=1e-3),
        "no_betas": dict(lr=0.05, betas=(0.0, 0.0)),
        "decay": dict(lr=0.1, weight_decay=0.3),
        "amsgrad": dict(lr=0.1, betas=(0.9, 0.6), amsgrad=True),
        "amsgrad_decay": dict(lr=0.1, betas=(0.9, 0.6), amsgrad=True, weight_decay=0.1),
        "maximize": dict(lr=0.1, weight_decay=0.1, maximize=True),
        "later_lr": dict(lr=0.1, later_lr=0.01),
        "groups": [dict(lr=0.1), dict(lr=0.02, betas=(0.8, 0.9), amsgrad=True)],
    }, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"], more=10)


def training():
    """A small network trained for ten steps: layers, loss, backward and optimizer together."""
    out = Writer("training")
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.LogSoftmax(-1)).double()
    names = {"fc1.weight": "0.weight", "fc1.bias": "0.bias", "fc2.weight": "2.weight", "fc2.bias": "2.bias"}
    start = {ours: draw(*model.get_parameter(theirs).shape, low=-0.5, high=0.5) for ours, theirs in names.items()}
    x, target = draw(6, 4), torch.randint(0, 3, (6, 1), generator=RANDOM)
    out("x", x)
    out("target", target)
    for name, value in start.items():
        out(f"start.{name}", value)
    optimizers = {
        "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
        "adam": lambda params: torch.optim.Adam(params, lr=0.05, weight_decay=0.01),
    }
    for case, make in optimizers.items():
        with torch.no_grad():
            for ours, theirs in names.items():
                model.get_parameter(theirs).copy_(start[ours])
        opt = make(model.parameters())
        losses = []
        for step in range(STEPS):
            opt.zero_grad()
            loss = -model(x).gather(1, target).mean()
            loss.backward()
            losses.append(loss.detach())
            if step == 0 and case == "sgd":
                for ours, theirs in names.items():
                    out(f"grad.{ours}", model.get_parameter(theirs).grad)
            opt.step()
        out(f"{case}.losses", torch.stack(losses))
        for ours, theirs in names.items():
            out(f"{case}.{ours}", model.get_parameter(theirs))
    out.save()


def embedding():
    out = Writer("embedding")
    weight, index = draw(5, 3), torch.tensor([[1, 4, 1], [0, 1, 3]])
    out("weight", weight)
    out("index", index)
    value_and_gradients(out, "plain", lambda w: F.embedding(index, w), {"weight": weight})
    value_and_gradients(out, "padding", lambda w: F.embedding(index, w, padding_idx=1), {"weight": weight})
    value_and_gradients(out, "padding_from_the_end", lambda w: F.embedding(index, w, padding_idx=-1), {"weight": weight})
    value_and_gradients(out, "one", lambda w: F.embedding(torch.tensor(2), w), {"weight": weight})
    out.save()


def lstm():
    """The output, both states, and the gradients of the sum of all three, each weighted by its own upstream gradient."""
    out = Writer("lstm")
    steps, batch, inputs, hidden = 3, 2, 2, 2
    for name, options, batched in (
        ("plain", dict(), True),
        ("no_bias", dict(bias=False), True),
        ("layers", dict(num_layers=2), True),
        ("batch_first", dict(num_layers=2, batch_first=True), True),
        ("bidirectional", dict(num_layers=2, bidirectional=True), True),
        ("unbatched", dict(), False),
    ):
        module = nn.LSTM(inputs, hidden, **options)
        for key, parameter in module.named_parameters():
            parameter.data = draw(*parameter.shape, low=-0.6, high=0.6)
            out(f"{name}.{key}", parameter)
        states = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        first = (batch, steps) if options.get("batch_first") else (steps, batch)
        x = draw(*first, inputs) if batched else draw(steps, inputs)
        h = draw(states, batch, hidden) if batched else draw(states, hidden)
        c = draw(*h.shape)
        for key, value in (("x", x), ("h0", h), ("c0", c)):
            out(f"{name}.{key}", value)
        for start in ("given", "zeros"):
            leaves = {"x": x, "h0": h, "c0": c} if start == "given" else {"x": x}
            leaves = {key: value.clone().requires_grad_() for key, value in leaves.items()}
            module.zero_grad()
            y, (h_n, c_n) = module(leaves["x"], (leaves["h0"], leaves["c0"]) if start == "given" else None)
            total = 0
            for key, value in (("y", y), ("h_n", h_n), ("c_n", c_n)):
                upstream = draw(*value.shape)
                out(f"{name}.{start}.{key}", value)
                out(f"{name}.{start}.g_{key}", upstream)
                total = total + (upstream * value).sum()
            total.backward()
            for key, leaf in leaves.items():
                out(f"{name}.{start}.d{key}", leaf.grad)
            for key, parameter in module.named_parameters():
                out(f"{name}.{start}.d{key}", parameter.grad)
    out.save()


def losses():
    out = Writer("losses")
    ignored = -7
    shapes = {"rows": (5, 4), "pixels": (2, 4, 2, 1), "one": (4,)}
    for shape, sizes in shapes.items():
        scores = draw(*sizes, low=-4, high=4)
        target_sizes = sizes[:1] + sizes[2:] if len(sizes) > 1 else ()
        target = torch.randint(0, 4, target_sizes, generator=RANDOM)
        some = target.clone()
        if some.dim():
            some.view(-1)[::3] = ignored
        weight = draw(4, low=0.2, high=3)
        for key, value in (("scores", scores), ("target", target), ("some", some), ("weight", weight)):
            out(f"{shape}.{key}", value)
        for reduction in ("none", "mean", "sum"):
            name = f"{shape}.{reduction}"
            value_and_gradients(out, f"{name}.nll", lambda s: F.nll_loss(s, target, reduction=reduction), {"scores": scores})
            value_and_gradients(out, f"{name}.nll_all", lambda s: F.nll_loss(
                s, some, weight=weight, ignore_index=ignored, reduction=reduction), {"scores": scores})
            value_and_gradients(out, f"{name}.ce", lambda s: F.cross_entropy(s, target, reduction=reduction), {"scores": scores})
            value_and_gradients(out, f"{name}.ce_ignored", lambda s: F.cross_entropy(
                s, some, ignore_index=ignored, reduction=reduction), {"scores": scores})
            value_and_gradients(out, f"{name}.ce_smooth", lambda s: F.cross_entropy(
                s, target, label_smoothing=0.2, reduction=reduction), {"scores": scores})
            value_and_gradients(out, f"{name}.ce_all", lambda s: F.cross_entropy(
                s, some, weight=weight, ignore_index=ignored, label_smoothing=0.2, reduction=reduction), {"scores": scores})
    x, y = draw(3, 4), draw(3, 4)
    out("mse.x", x)
    out("mse.target", y)
    for reduction in ("none", "mean", "sum"):
        value_and_gradients(out, f"mse.{reduction}", lambda a, b: F.mse_loss(a, b, reduction=reduction), {"x": x, "target": y})
    # Where no target counts, PyTorch's mean is nan and its gradient zero.
    nothing = torch.full((5,), ignored)
    value_and_gradients(out, "nothing", lambda s: F.cross_entropy(s, nothing, ignore_index=ignored), {"scores": draw(5, 4)})
    out.save()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    for family in (linear, activations, init, categorical, sgd, adam, training, embedding, lstm, losses, conv, pooling,
                   batch_norm, resnet):
        family()
