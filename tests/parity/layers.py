"""Layers and losses: as cases.py, for operations with many options."""
from cases import dims, index_input, text


def floating(d):
    return d.one("float32", "float64")


def kind(d):
    return d.kind("plain", "plain", "plain", "ties", "edges")


def both(d, *options):
    return [d.one(*options), d.one(*options)]


def conv(d, p):
    # A weight that is no number times the zeros of the padding: PyTorch's answer depends on its algorithm.
    dtype, k = floating(d), d.kind("plain", "plain", "ties")
    groups = d.one(1, 1, 1, 2, 3)
    cin, cout = groups * d.between(1, 2), groups * d.between(1, 2)
    kernel, stride, padding, dilation = both(d, 1, 2, 3), both(d, 1, 1, 2), both(d, 0, 0, 1, 2), both(d, 1, 1, 2)
    image = [max(1, dilation[i] * (kernel[i] - 1) + 1 - 2 * padding[i] + d.between(0, 2)) for i in range(2)]
    batch = [] if d.chance(0.2) else [d.one(0, 1, 2) if d.chance(0.2) else d.between(1, 2)]
    make = lambda sizes: f"%{d.input(p, sizes, dtype, d.chance(0.85), k)}"
    return p.step("conv2d", make(batch + [cin] + image), make([cout, cin // groups] + kernel),
                  make([cout]) if d.chance(0.6) else "none", dims(stride), dims(padding), dims(dilation), groups)


def sees_pixels(size, kernel, stride, padding, dilation, ceil):
    """Whether each window of max_pool2d has something of the image in it. Else PyTorch reads what is not there."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + padding:
        count -= 1
    return all(any(0 <= i * stride - padding + j * dilation < size for j in range(kernel)) for i in range(count))


def pool(d, p):
    op = d.one("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")
    dtype, k = floating(d), kind(d)
    batch = [] if d.chance(0.3) else [d.between(1, 2)]
    image = [d.between(1, 6), d.between(1, 5)]
    x = f"%{d.input(p, batch + [d.between(1, 2)] + image, dtype, True, k)}"
    if op == "adaptive_avg_pool2d":
        return p.step(op, x, dims(both(d, 1, 2, 3, 5)))
    kernel = both(d, 1, 2, 3)
    stride = d.one([], both(d, 1, 2, 3))
    padding = [d.between(0, n // 2) for n in kernel]
    ceil = d.chance(0.4)
    if op == "max_pool2d":
        dilation = both(d, 1, 1, 2)
        if not all(map(sees_pixels, image, kernel, stride or kernel, padding, dilation, [ceil, ceil])):
            dilation, ceil = [1, 1], False
        return p.step(op, x, dims(kernel), dims(stride), dims(padding), dims(dilation), text(ceil), results=2)
    return p.step(op, x, dims(kernel), dims(stride), dims(padding), text(ceil), text(d.chance(0.5)),
                  text(d.one(None, None, 2, 5, -3)))


def norm(d, p):
    dtype, k, channels = floating(d), d.kind("plain", "plain", "plain", "wide", "ties"), d.between(1, 3)
    training = d.chance(0.6)
    sizes = [d.between(1, 4), channels] + d.one([], [3], [2, 2])
    if training and sizes == [2, channels]:
        sizes[0] = 3  # two elements are normalised to -1 and 1, so that gradients are only rounding errors
    make = lambda sizes, **how: f"%{d.input(p, sizes, dtype, **how)}"
    # Not all equal in a channel: gradients would be a rounding error times 1 / sqrt(eps).
    # Contiguous in evaluation and for one image: for some other layouts PyTorch's gradient has its elements in the
    # wrong order.
    x = make(sizes, grad=True, kind=k, overlapping=False, plain_layout=not training or sizes[0] == 1)
    tracked = not training or d.chance(0.6)
    mean = make([channels], plain_layout=True) if tracked else "none"
    var = make([channels], low=0.1, high=3, plain_layout=True) if tracked else "none"
    # Contiguous: PyTorch's gradient reads beyond an expanded weight.
    weight, bias = (make([channels], grad=d.chance(0.8), plain_layout=True) if d.chance(0.7) else "none" for _ in range(2))
    y = p.step("batch_norm", x, mean, var, weight, bias, text(training), d.one(0.1, 0.5, 1.0, 0.0), d.one(1e-5, 0.1))
    return [y] + [int(s[1:]) for s in (mean, var) if s != "none"]


def lstm(d, p):
    dtype, k = floating(d), d.kind("plain", "plain", "ties")
    steps, batch, wide, hidden = d.between(1, 4), d.between(1, 3), d.between(1, 3), d.between(1, 3)
    make = lambda *sizes: f"%{d.input(p, list(sizes), dtype, d.chance(0.85), k)}"
    bias = d.chance(0.7)
    return p.step("lstm", make(steps, batch, wide), make(4 * hidden, wide), make(4 * hidden, hidden),
                  make(4 * hidden) if bias else "none", make(4 * hidden) if bias else "none",
                  make(batch, hidden) if d.chance(0.6) else "none", make(batch, hidden) if d.chance(0.6) else "none",
                  text(d.chance(0.4)), results=2)


def loss(d, p):
    op = d.one("nll_loss", "cross_entropy", "cross_entropy", "mse_loss")
    dtype, reduction = d.floating(), d.one("mean", "sum", "none")
    if op == "mse_loss":
        sizes = d.shape(empty=0)  # differences.py
        k = d.kind("plain", "ties", *(("wide", "edges") if dtype.startswith("float") and dtype != "float16" else ()))
        x, y = (f"%{d.input(p, sizes, dtype, d.chance(0.85), k)}" for _ in range(2))
        return p.step(op, x, y, reduction)
    classes = d.between(1, 5)
    batch, places = d.one(([], []), ([d.between(0 if d.chance(0.1) else 1, 4)], []), ([2], [2]), ([1], [2, 2]))
    ignored = d.one(-100, -100, 0, 1)
    some_ignored = d.chance(0.3)
    kinds = ["plain", "plain", "wide", "ties"]
    if op == "nll_loss" or not (some_ignored or ignored >= 0):  # differences.py: gradients of ignored logits
        kinds.append("edges")
    x = d.input(p, batch + [classes] + places, dtype, True, d.kind(*kinds))
    target = index_input(d, p, batch + places, classes)
    if some_ignored:
        values = p.nodes[-1].values
        values[:] = [ignored if d.chance(0.3) else v for v in values]
    if all(v == ignored for v in p.nodes[-1].values):
        d.plain = False  # differences.py: second derivatives where nothing counts
    weight = f"%{d.input(p, [classes], dtype, False, 'plain', 0.1, 3)}" if d.chance(0.4) else "none"
    return p.step(op, f"%{x}", target, weight, reduction, ignored, *([d.one(0.0, 0.0, 0.2, 1.0)] if op == "cross_entropy" else []))
