"""What each operation of a case is in PyTorch: the same names and arguments as tests/parity/ops.cpp."""
import torch
import torch.nn.functional as F

UNARY = """neg abs sign square relu floor ceil trunc round reciprocal sqrt rsqrt exp expm1 log log1p log2 log10 sin cos
    tan asin acos atan sinh cosh tanh erf sigmoid logsigmoid softplus silu gelu elu""".split()
ACTIVATIONS = """mish selu celu softsign tanhshrink relu6 hardsigmoid hardswish hardshrink softshrink leaky_relu""".split()
PREDICATES = "logical_not isnan isinf isfinite".split()
BINARY = "add sub mul div pow maximum minimum atan2".split()
COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor".split()

# The operations of a graph whose one result is rounded: here it may break a tie that it does not break in PyTorch.
ROUNDED = """add sub mul add_ sub_ mul_ square sum_dims mean_dims cumsum softmax logsumexp matmul
    sin cos tanh sigmoid atan erf gelu silu softplus logsigmoid""".split()


def called(name):
    functional = ("logsigmoid", "softplus", "silu", "gelu", "elu", *ACTIVATIONS)
    return getattr(F, name) if name in functional else getattr(torch, name)


def as_tensor(value, other):
    """A number beside a tensor as a tensor without dimensions, which promotes as the number does."""
    if isinstance(value, torch.Tensor):
        return value
    half = other.dtype in (torch.float16, torch.bfloat16) and other.dim()  # whose operations compute in float
    return torch.tensor(value, dtype=None if half else torch.result_type(other, value))


def binary(name):
    function = called(name)
    if name in ("add", "sub", "mul", "div"):
        plain = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y}
        return plain[name]
    if name == "pow" or name in COMPARE[:6]:
        return lambda x, y: function(x, y)
    return lambda x, y: function(as_tensor(x, y), as_tensor(y, x))


def grad(outputs, inputs, gradients):
    """d(sum of output * gradient)/d(inputs), recorded; zeros where there is none."""
    kept = [(o, g) for o, g in zip(outputs, gradients) if o.requires_grad]
    if not kept:
        return [torch.zeros_like(x) for x in inputs]
    found = torch.autograd.grad([o for o, _ in kept], inputs, [g for _, g in kept], create_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if d is None else d for x, d in zip(inputs, found)]


def backward(outputs, leaves, gradients):
    torch.autograd.backward(outputs, gradients)
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]




def lstm(x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, reverse):
    """One direction of one layer: output and the last c."""
    zeros = torch.zeros(x.shape[1], weight_hh.shape[1], dtype=x.dtype)
    state = tuple((zeros if s is None else s).unsqueeze(0) for s in (h, c))
    weights = [weight_ih, weight_hh] + ([] if bias_ih is None else [bias_ih, bias_hh])
    y, _, c = torch.lstm(x.flip(0) if reverse else x, state, weights, bias_ih is not None, 1, 0.0, True, False, False)
    return y.flip(0) if reverse else y, c[0]


def index_put(x, indices, values, accumulate):
    """A copy of x with values written to what the indices choose, or added there, each as often as it is named."""
    if not accumulate:
        y = x.clone()
        y[indices] = values
        return y
    places = torch.arange(x.numel()).reshape(x.shape)[indices]
    added = values.to(x.dtype).expand(places.shape).reshape(-1)
    return x.reshape(-1).index_add(0, places.reshape(-1), added).reshape(x.shape)


def recurrent(kind):
    """One layer, one direction: output and the last h."""
    def run(x, weight_ih, weight_hh, bias_ih, bias_hh, h):
        weights = [weight_ih, weight_hh] + ([] if bias_ih is None else [bias_ih, bias_hh])
        state = torch.zeros(1, x.shape[1], weight_hh.shape[1], dtype=x.dtype) if h is None else h.unsqueeze(0)
        y, h = kind(x, state, weights, bias_ih is not None, 1, 0.0, True, False, False)
        return y, h[0]

    return run


def options_of(text):
    """`lr=0.1;nesterov=1` as numbers."""
    return {k: float(v) for k, v in (part.split("=") for part in text.split(";") if part)}


def make_optimizer(name, params, given):
    given = dict(given)
    for flag in ("nesterov", "maximize", "amsgrad", "centered"):
        if flag in given:
            given[flag] = bool(given[flag])
    if "beta1" in given:
        given["betas"] = (given.pop("beta1"), given.pop("beta2"))
    return getattr(torch.optim, name)(params, foreach=False, **given)


def make_schedule(name, optimizer, given):
    schedulers = torch.optim.lr_scheduler
    given = {k: int(v) if k in ("step_size", "T_max", "T_0", "T_mult", "total_iters", "total_steps", "patience",
                                "cooldown", "first", "second", "milestone") else v for k, v in given.items()}
    if name == "MultiStepLR":
        return schedulers.MultiStepLR(optimizer, [given["first"], given["second"]], given["gamma"])
    if name == "SequentialLR":
        parts = [schedulers.LinearLR(optimizer, 0.25, total_iters=4), schedulers.CosineAnnealingLR(optimizer, 7)]
        return schedulers.SequentialLR(optimizer, parts, [given["milestone"]])
    if name == "ChainedScheduler":
        return schedulers.ChainedScheduler([schedulers.LinearLR(optimizer, 0.25, total_iters=4),
                                            schedulers.ExponentialLR(optimizer, given["gamma"])])
    if name == "OneCycleLR":
        given["three_phase"] = bool(given.get("three_phase", 0))
        given["anneal_strategy"] = "linear" if given.pop("linear", 0) else "cos"
        given["cycle_momentum"] = bool(given.get("cycle_momentum", 1))
    if name == "ReduceLROnPlateau":
        given["mode"] = "max" if given.pop("max", 0) else "min"
        given["threshold_mode"] = "abs" if given.pop("abs", 0) else "rel"
    return getattr(schedulers, name)(optimizer, **given)


def train(params, gradients, optimizer, options, schedule, schedule_options, steps):
    """`steps` steps, the gradient of step t being g (t % 3 - 1 / 2) + p / 8; the parameters and the last rate."""
    params = [x.detach().clone().requires_grad_() for x in params]
    stepper = make_optimizer(optimizer, params, options_of(options))
    rates = make_schedule(schedule, stepper, options_of(schedule_options)) if schedule != "constant" else None
    for t in range(steps):
        for x, g in zip(params, gradients):
            x.grad = g.detach() * (t % 3 - 0.5) + x.detach() * 0.125
        stepper.step()
        if rates is not None:
            rates.step(*([1.0 + (t * 7 % 5) - t * 0.05] if schedule == "ReduceLROnPlateau" else []))
    return [x.detach() for x in params] + [torch.tensor(stepper.param_groups[0]["lr"], dtype=torch.float64)]


def clip_grad_norm(gradients, max_norm, p):
    params = [torch.zeros_like(g).requires_grad_() for g in gradients]
    for x, g in zip(params, gradients):
        x.grad = g.detach().clone()
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm, p)
    return [norm] + [x.grad for x in params]


def attention(query, key, value, mask, causal, scale):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # of which there are second derivatives
        return F.scaled_dot_product_attention(query, key, value, mask, 0.0, causal, scale=scale)


OPS = {
    **{name: called(name) for name in UNARY + ACTIVATIONS + PREDICATES},
    # indexing
    "index": lambda x, indices: x[indices].clone(), "index_put": index_put,
    "masked_select": torch.masked_select, "nonzero": torch.nonzero,
    "scatter": lambda x, dim, index, source: x.scatter(dim, index, source), "take_along_dim": torch.take_along_dim,
    "one_hot": F.one_hot,
    # moving elements
    "flip": torch.flip, "roll": torch.roll, "roll_all": lambda x, shift: torch.roll(x, shift),
    "repeat": lambda x, times: x.repeat(*times), "tile": torch.tile, "repeat_interleave": torch.repeat_interleave,
    "pad": lambda x, sizes, mode, value: F.pad(x, sizes, mode, value if mode == "constant" else None),
    "tril": torch.tril, "triu": torch.triu, "diag": torch.diag, "diagonal": torch.diagonal,
    "meshgrid": lambda vectors: torch.meshgrid(*vectors, indexing="ij"), "movedim": torch.movedim,
    # sorting and counting
    "sort": lambda x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True),
    "topk": lambda x, k, dim, largest: torch.topk(x, k, dim, largest)[0],
    "kthvalue": lambda x, k, dim, keepdim: torch.kthvalue(x, k, dim, keepdim)[0],
    "median_dim": lambda x, dim, keepdim: torch.median(x, dim, keepdim)[0], "median": torch.median,
    "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "bincount": lambda x, least: torch.bincount(x, minlength=least),
    "histc": lambda x, bins, low, high: torch.histc(x, bins, low, high),
    "searchsorted": lambda line, values, right: torch.searchsorted(line, values, right=right),
    # products along dimensions
    "prod": torch.prod, "prod_dim": lambda x, dim, keepdim: torch.prod(x, dim, keepdim), "cumprod": torch.cumprod,
    "cummax": torch.cummax, "cummin": torch.cummin, "logcumsumexp": torch.logcumsumexp,
    "norm": lambda x, p, dims, keepdim: torch.linalg.vector_norm(x, p, dims or None, keepdim),
    "all_dim": lambda x, dim, keepdim: torch.all(x, dim, keepdim), "any_dim": lambda x, dim, keepdim: torch.any(x, dim, keepdim),
    "argmax_all": lambda x: torch.argmax(x), "argmin_all": lambda x: torch.argmin(x),
    "einsum": lambda equation, operands: torch.einsum(equation, *operands).clone(), "outer": torch.outer,
    "baddbmm": lambda c, a, b, beta, alpha: torch.baddbmm(c, a, b, beta=beta, alpha=alpha),
    # activations of several numbers, normalisation, attention
    "hardtanh": F.hardtanh, "threshold": F.threshold, "softplus_of": F.softplus, "prelu": F.prelu, "glu": F.glu,
    "layer_norm": lambda x, sizes, weight, bias, eps: F.layer_norm(x, sizes, weight, bias, eps),
    "rms_norm": lambda x, sizes, weight, eps: F.rms_norm(x, sizes, weight, eps), "group_norm": F.group_norm,
    "attention": attention,
    "interpolate": lambda x, size, mode, align: F.interpolate(
        x, size=size, mode=mode, align_corners=align if mode == "bilinear" else None),
    "interpolate_by": lambda x, height, width, mode, align: F.interpolate(
        x, scale_factor=(height, width), mode=mode, align_corners=align if mode == "bilinear" else None),
    "gru": recurrent(torch.gru), "rnn_tanh": recurrent(torch.rnn_tanh), "rnn_relu": recurrent(torch.rnn_relu),
    # losses of pairs
    "bce": lambda x, y, weight, reduction: F.binary_cross_entropy(x, y, weight, reduction=reduction or "none"),
    "bce_with_logits": lambda x, y, weight, pos_weight, reduction: F.binary_cross_entropy_with_logits(
        x, y, weight, pos_weight=pos_weight, reduction=reduction or "none"),
    "l1_loss": lambda x, y, reduction: F.l1_loss(x, y, reduction=reduction or "none"),
    "smooth_l1_loss": lambda x, y, beta, reduction: F.smooth_l1_loss(x, y, beta=beta, reduction=reduction or "none"),
    "huber_loss": lambda x, y, delta, reduction: F.huber_loss(x, y, delta=delta, reduction=reduction or "none"),
    "kl_div": lambda x, y, log_target, reduction: F.kl_div(x, y, log_target=log_target, reduction=reduction or "none"),
    "cosine_similarity": lambda x, y, dim: F.cosine_similarity(x, y, dim),
    "cosine_embedding_loss": lambda x, y, target, margin, reduction: F.cosine_embedding_loss(
        x, y, target, margin, reduction=reduction or "none"),
    "triplet_margin_loss": lambda x, y, z, margin, p, eps, swap, reduction: F.triplet_margin_loss(
        x, y, z, margin, p, eps, swap, reduction=reduction or "none"),
    # training
    "train": train, "clip_grad_norm": clip_grad_norm,
    **{name: binary(name) for name in BINARY + COMPARE},
    "where": lambda mask, x, y: torch.where(mask, x, y),
    "clamp": lambda x, low, high: x.clamp(low, high),
    "masked_fill": lambda x, mask, value: x.masked_fill(mask, value),
    # products
    "matmul": torch.matmul, "mm": torch.mm, "bmm": torch.bmm, "dot": torch.dot, "t": lambda x: x.t(),
    "addmm": lambda c, a, b, beta, alpha: torch.addmm(c, a, b, beta=beta, alpha=alpha),
    "linear": F.linear,
    # reductions
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "max": lambda x: x.max(), "min": lambda x: x.min(),
    "all": lambda x: x.all(), "any": lambda x: x.any(),
    "sum_dims": lambda x, dims, keepdim: x.sum(dims, keepdim), "mean_dims": lambda x, dims, keepdim: x.mean(dims, keepdim),
    "var": lambda x, dims, unbiased, keepdim: x.var(dims, unbiased=unbiased, keepdim=keepdim),
    "std": lambda x, dims, unbiased, keepdim: x.std(dims, unbiased=unbiased, keepdim=keepdim),
    "max_dim": lambda x, dim, keepdim: x.max(dim, keepdim), "min_dim": lambda x, dim, keepdim: x.min(dim, keepdim),
    "argmax": lambda x, dim, keepdim: x.argmax(dim, keepdim), "argmin": lambda x, dim, keepdim: x.argmin(dim, keepdim),
    "logsumexp": lambda x, dim, keepdim: x.logsumexp(dim, keepdim),
    "cumsum": torch.cumsum, "softmax": torch.softmax, "log_softmax": torch.log_softmax,
    # by index
    "gather": torch.gather, "index_select": torch.index_select,
    "scatter_add": lambda x, dim, index, source: x.scatter_add(dim, index, source),
    "index_add": lambda x, dim, index, source: x.index_add(dim, index, source),
    "embedding": lambda index, weight, padding: F.embedding(index, weight, padding),
    # views
    "view": lambda x, sizes: x.view(sizes), "reshape": lambda x, sizes: x.reshape(sizes), "flatten": torch.flatten,
    "expand": lambda x, sizes: x.expand(sizes), "permute": lambda x, dims: x.permute(dims),
    "transpose": torch.transpose, "squeeze": lambda x: x.squeeze(), "squeeze_dim": lambda x, dim: x.squeeze(dim),
    "unsqueeze": torch.unsqueeze, "select": torch.select, "narrow": torch.narrow,
    "slice": lambda x, dim, start, end, step: torch.ops.aten.slice(x, dim, start, end, step),
    "split": lambda x, size, dim: x.split(size, dim), "chunk": torch.chunk, "unbind": torch.unbind,
    # joins and copies
    "cat": torch.cat, "stack": torch.stack, "contiguous": lambda x: x.contiguous(), "clone": lambda x: x.clone(),
    "to": lambda x, dtype: x.to(dtype), "detach": lambda x: x.detach(),
    # in place
    "add_": lambda x, y, alpha: x.add_(y, alpha=alpha), "sub_": lambda x, y, alpha: x.sub_(y, alpha=alpha),
    "mul_": lambda x, y: x.mul_(y), "div_": lambda x, y: x.div_(y), "copy_": lambda x, y: x.copy_(y),
    "fill_": lambda x, value: x.fill_(value), "zero_": lambda x: x.zero_(), "relu_": lambda x: x.relu_(),
    "clamp_": lambda x, low, high: x.clamp_(low, high), "masked_fill_": lambda x, mask, value: x.masked_fill_(mask, value),
    # layers
    "conv2d": F.conv2d,
    "max_pool2d": lambda x, kernel, stride, padding, dilation, ceil: F.max_pool2d(
        x, kernel, stride or None, padding, dilation, ceil, return_indices=True),
    "avg_pool2d": lambda x, kernel, stride, padding, ceil, count_pad, divisor: F.avg_pool2d(
        x, kernel, stride or None, padding, ceil, count_pad, divisor),
    "adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "batch_norm": F.batch_norm,
    "lstm": lstm,
    # losses
    "nll_loss": lambda x, target, weight, reduction, ignore: F.nll_loss(
        x, target, weight, reduction=reduction or "none", ignore_index=ignore),
    "cross_entropy": lambda x, target, weight, reduction, ignore, smoothing: F.cross_entropy(
        x, target, weight, reduction=reduction or "none", ignore_index=ignore, label_smoothing=smoothing),
    "mse_loss": lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction or "none"),
    # derivatives
    "grad": grad, "backward": backward,
}
