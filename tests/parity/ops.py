"""What each operation of a case is in PyTorch: the same names and arguments as tests/parity/ops.cpp."""
import torch
import torch.nn.functional as F

UNARY = """neg abs sign square relu floor ceil trunc round reciprocal sqrt rsqrt exp expm1 log log1p log2 log10 sin cos
    tan asin acos atan sinh cosh tanh erf sigmoid logsigmoid softplus silu gelu elu""".split()
PREDICATES = "logical_not isnan isinf isfinite".split()
BINARY = "add sub mul div pow maximum minimum atan2".split()
COMPARE = "eq ne lt le gt ge logical_and logical_or logical_xor".split()


def called(name):
    return getattr(F, name) if name in ("logsigmoid", "softplus", "silu", "gelu", "elu") else getattr(torch, name)


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


OPS = {
    **{name: called(name) for name in UNARY + PREDICATES},
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
