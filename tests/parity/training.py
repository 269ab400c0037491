"""As cases.py, for what models are trained with: activations, normalisation, attention, losses, optimizers."""
import math

import ops
from cases import dims, refs, text


def floating(d):
    return d.one("float32", "float64")


def activation(d, p):
    op = d.one(*ops.ACTIVATIONS, "hardtanh", "threshold", "softplus_of", "prelu", "glu")
    # PyTorch's derivatives of the first two have a sixth in float32.
    dtype, kind = "float32" if op in ("hardsigmoid", "hardswish") else floating(d), d.kind("plain")
    sizes = d.shape()
    if op == "glu":
        sizes = d.shape(1, 3)
        dim = d.below(len(sizes))
        sizes[dim] *= 2
        return p.step(op, f"%{d.input(p, sizes, dtype, True, kind, -4, 4)}", dim - d.one(0, len(sizes)))
    # Beyond, and where mish's derivative is 0, they and their derivatives are what rounding leaves of x - tanh(x) and
    # 1 - tanh^2; all second derivatives are: tests/autograd has them.
    low, high = {"mish": (-1, 4), "tanhshrink": (0.5, 3)}.get(op, (-8, 8))
    d.plain = d.plain and op not in ("mish", "tanhshrink")
    x = f"%{d.input(p, sizes, dtype, True, kind, low, high)}"
    d.plain = d.plain and op not in ("celu", "selu")  # as elu's: differences.py
    if op == "prelu":
        # At 0 PyTorch's two mixed derivatives differ: one takes the slope 1, the other the slope `weight`.
        d.plain = d.plain and 0 not in p.inputs()[0].values
        weight = d.input(p, [sizes[1] if len(sizes) > 1 and d.chance(0.5) else 1], dtype, True)
        return p.step(op, x, f"%{weight}")
    return p.step(op, x, *{"hardtanh": [-1.5, 2.5], "threshold": [0.5, -3.0], "softplus_of": [d.one(1.0, 2.0, 0.5), d.one(20.0, 3.001)]}.get(op, []))


def normalised(d, p):
    op = d.one("layer_norm", "layer_norm", "rms_norm", "group_norm")
    dtype, kind = floating(d), d.kind("plain", "plain", "wide")
    make = lambda sizes, **how: f"%{d.input(p, sizes, dtype, True, **how)}"
    maybe = lambda sizes: make(sizes) if d.chance(0.7) else "none"
    eps = d.one(1e-5, 0.1)
    if op == "group_norm":
        groups = d.between(1, 3)
        channels = groups * d.between(1, 2)
        image = d.one([3], [4], [2, 2])
        x = make([d.between(1, 3), channels] + image, kind=d.kind("plain", "plain", "wide"), overlapping=False)
        return p.step(op, x, groups, maybe([channels]), maybe([channels]), eps)
    sizes = d.shape(1, 4, empty=0)
    shape = sizes[d.below(len(sizes)):]
    if math.prod(shape) < 3:  # what is left of a number less itself, or of one of two, is rounding
        kind, d.plain, eps = "plain", False, 1.0
    x = make(sizes, kind=kind, overlapping=False)
    return p.step(op, x, dims(shape), maybe(shape), *([maybe(shape)] if op == "layer_norm" else []), eps)


def attending(d, p):
    dtype = floating(d)
    batch = d.one([], [2], [2, 2], [1, 3])
    queries, keys, wide, out = d.between(1, 4), d.between(1, 4), d.between(1, 3), d.between(1, 3)
    make = lambda sizes, **how: f"%{d.input(p, sizes, dtype, d.chance(0.9), **how)}"
    q, k, v = make(batch + [queries, wide]), make(batch + [keys, wide]), make(batch + [keys, out])
    mask, causal = "none", d.chance(0.25)
    if not causal and d.chance(0.7):
        sizes = d.one([queries, keys], [1, keys], batch + [queries, keys])
        mask = f"%{d.input(p, sizes, 'bool')}" if d.chance(0.5) else f"%{d.input(p, sizes, dtype, False)}"
        if p.nodes[-1].dtype != "bool" and d.chance(0.5):
            p.nodes[-1].values[:] = [-math.inf if d.chance(0.5) else x for x in p.nodes[-1].values]
    return p.step("attention", q, k, v, mask, text(causal), text(d.one(None, 0.5)))


def resized(d, p):
    dtype = floating(d)
    image = [d.between(1, 5), d.between(1, 5)]
    x = f"%{d.input(p, [d.between(1, 2), d.between(1, 2)] + image, dtype, True)}"
    mode = d.one("nearest", "bilinear", "bilinear")
    align = text(mode == "bilinear" and d.chance(0.5))
    if d.chance(0.5):
        return p.step("interpolate", x, dims([d.between(1, 8), d.between(1, 8)]), mode, align)
    return p.step("interpolate_by", x, *(d.one(1.0, 2.0, 1.5, 1.3, 0.7, 2.6, 3.0) if n > 1 else d.one(1.0, 2.0, 1.3) for n in image), mode, align)


def recurring(d, p):
    op = d.one("gru", "gru", "rnn_tanh", "rnn_relu")
    dtype, gates = floating(d), 3 if op == "gru" else 1
    steps, batch, wide, hidden = d.between(1, 4), d.between(1, 3), d.between(1, 3), d.between(1, 3)
    make = lambda grad, *sizes: f"%{d.input(p, list(sizes), dtype, grad)}"
    bias = d.chance(0.7)
    return p.step(op, make(True, steps, batch, wide), make(False, gates * hidden, wide), make(False, gates * hidden, hidden),
                  make(False, gates * hidden) if bias else "none", make(False, gates * hidden) if bias else "none",
                  make(True, batch, hidden) if d.chance(0.6) else "none", results=2)


def pair_loss(d, p):
    op = d.one("bce", "bce_with_logits", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "cosine_similarity",
               "cosine_embedding_loss", "triplet_margin_loss")
    dtype, reduction = floating(d), d.one("mean", "sum", "none")
    sizes = d.shape(empty=0)
    make = lambda sizes, low=-2.0, high=2.0, grad=True, kind="plain": f"%{d.input(p, sizes, dtype, grad, kind, low, high)}"
    maybe = lambda: make(d.broadcastable(sizes), 0.1, 3, False) if d.chance(0.4) else "none"
    if op == "bce":
        d.plain = False  # PyTorch's second derivatives add 1e-12 to what they divide by
        return p.step(op, make(sizes, 0, 1), make(sizes, 0, 1), maybe(), reduction)
    if op == "bce_with_logits":
        return p.step(op, make(sizes, -30, 30), make(sizes, 0, 1), maybe(), maybe(), reduction)
    if op in ("l1_loss", "smooth_l1_loss", "huber_loss"):
        kind = d.kind("plain", "ties")
        return p.step(op, make(sizes, kind=kind), make(sizes, kind=kind), *([] if op == "l1_loss" else [d.one(1.0, 0.5, 2.0)]), reduction)
    if op == "kl_div":
        logs = d.chance(0.5)
        return p.step(op, make(sizes), make(sizes, -2 if logs else 0.05, 2), text(logs), reduction)
    if op == "cosine_similarity":
        sizes = [d.between(2, 4) for _ in range(d.between(1, 2))]  # of one number all derivatives are rounding
        return p.step(op, make(sizes), make(sizes), d.dim(len(sizes)))
    batch, wide = d.one([], [d.between(1, 4)]), d.between(2, 4)
    if op == "cosine_embedding_loss":
        target = p.input("int64", batch, [d.one(-1, 1) for _ in range(math.prod(batch))])
        return p.step(op, make(batch + [wide]), make(batch + [wide]), f"%{target}", d.one(0.0, 0.3), reduction)
    return p.step(op, *(make(batch + [wide]) for _ in range(3)), d.one(1.0, 0.3), d.one(2.0, 2.0, 1.0, 3.0), 1e-6,
                  text(d.chance(0.4)), reduction)


# ---- optimizers
def given(**options):
    return ";".join(f"{k}={v}" for k, v in options.items()) or ";"


def some(d, **options):
    return {k: v for k, v in options.items() if d.chance(0.5)}


def optimizer(d):
    lr = d.one(0.1, 0.01, 0.5)
    name = d.one("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adamax")
    both = {"lr": lr, **some(d, weight_decay=0.1, maximize=1)}
    if name == "SGD":
        both |= some(d, momentum=0.9)
        if "momentum" in both:
            both |= d.one({}, {"dampening": 0.3}, {"nesterov": 1})
    elif name == "RMSprop":
        both |= some(d, momentum=0.9, alpha=0.9, centered=1)
    elif name == "Adagrad":
        both |= some(d, lr_decay=0.05, initial_accumulator_value=0.3)
    else:
        both |= d.one({}, {"beta1": 0.8, "beta2": 0.95}) | ({} if name == "Adamax" else some(d, amsgrad=1))
    return name, both | some(d, eps=1e-3) if name != "SGD" else both


def schedule(d, name, options):
    which = d.one("constant", "StepLR", "MultiStepLR", "ExponentialLR", "LinearLR", "CosineAnnealingLR",
                  "CosineAnnealingWarmRestarts", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler")
    if which == "OneCycleLR":
        cycles = name not in ("Adagrad",) and (name != "RMSprop" or "momentum" in options) and options.get("nesterov") is None
        return which, dict(max_lr=0.3, total_steps=d.one(21, 25, 40), pct_start=d.one(0.3, 0.5, 0.24), three_phase=d.below(2),
                           linear=d.below(2), cycle_momentum=int(cycles and (name != "SGD" or "momentum" in options)))
    return which, {
        "constant": {}, "StepLR": dict(step_size=d.between(1, 7), gamma=0.5), "ExponentialLR": dict(gamma=0.9),
        "MultiStepLR": dict(first=d.between(1, 9), second=d.between(9, 15), gamma=0.3),
        "LinearLR": dict(start_factor=0.2, end_factor=d.one(1.0, 0.7), total_iters=d.between(1, 25)),
        "CosineAnnealingLR": dict(T_max=d.between(1, 15), eta_min=d.one(0.0, 0.001)),
        "CosineAnnealingWarmRestarts": dict(T_0=d.between(1, 6), T_mult=d.between(1, 3), eta_min=d.one(0.0, 0.001)),
        "ReduceLROnPlateau": dict(factor=0.5, patience=d.between(0, 3), cooldown=d.between(0, 2), max=d.below(2), abs=d.below(2),
                                  threshold=d.one(1e-4, 0.1), min_lr=d.one(0.0, 0.02)),
        "SequentialLR": dict(milestone=d.between(1, 10)), "ChainedScheduler": dict(gamma=0.9)}[which]


def training(d, p):
    dtype = floating(d)
    count = d.between(1, 3)
    shapes = [d.shape(0, 2) for _ in range(count)]
    params = [d.input(p, s, dtype) for s in shapes]
    gradients = [d.input(p, s, dtype) for s in shapes]
    if d.chance(0.2):
        norm = d.one(0.5, 2.0, 100.0)
        return p.step("clip_grad_norm", refs(gradients), norm, d.one(1.0, 2.0, 2.0, 3.0, math.inf), results=count + 1)
    name, options = optimizer(d)
    which, rates = schedule(d, name, options)
    return p.step("train", refs(params), refs(gradients), name, given(**options), which, given(**rates), 20, results=count + 1)
