// Along one dimension, keeping it: softmax, log_softmax; and logsumexp, which removes it.
#include "tendril/autograd/ops/softmax.h"

#include <cmath>

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;

/// For formulas over the half types: they are computed in float32, so that the gradient alone is rounded (the engine
/// does that).
Tensor wide(const Tensor& x) { return x.to(computed_in(x.dtype())); }

/// d/dx sum(g * softmax(x)) = y * (g - sum(g * y))
struct SoftmaxBackward : NodeOf<SoftmaxBackward, 1, 1> {
  static constexpr const char* kName = "SoftmaxBackward";
  int dim = 0;

  void keep(const Tensor& y, int along) {
    save_output(0, y);
    dim = along;
  }
  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor y = wide(saved(0)), gy = wide(g) * y;
    dx[0] = gy - y * gy.sum({dim}, true);
  }
};

/// d/dx sum(g * log_softmax(x)) = g - exp(y) * sum(g)
struct LogSoftmaxBackward : NodeOf<LogSoftmaxBackward, 1, 1> {
  static constexpr const char* kName = "LogSoftmaxBackward";
  int dim = 0;

  void keep(const Tensor& y, int along) {
    save_output(0, y);
    dim = along;
  }
  void backward(const Tensor& given, std::span<Tensor> dx) {
    const Tensor g = wide(given);
    dx[0] = g - wide(saved(0)).exp() * g.sum({dim}, true);
  }
};

/// d/dx logsumexp(x) = exp(x - y). Where y is -infinity it is 0; where y is infinity, the infinite x share it equally.
struct LogsumexpBackward : NodeOf<LogsumexpBackward, 1, 2> {
  static constexpr const char* kName = "LogsumexpBackward";
  Dims kept;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    const Tensor x = saved(0), y = saved(1).reshape(kept), infinite = raw::predicate(Predicate::isinf, y);
    if (x.device().is_cpu() && !infinite.any().item<bool>()) {
      dx[0] = g.reshape(kept) * (x - y).exp();
      return;
    }
    const Tensor finite = (x.masked_fill(infinite, -HUGE_VAL) - y.masked_fill(infinite, 0)).exp();
    const Tensor largest = raw::cast(raw::compare(Compare::eq, x, HUGE_VAL), x.dtype());
    Dims reduced;
    for (int d = 0; d < x.dim(); ++d) {
      if (kept[d] != x.size(d)) reduced.push_back(d);
    }
    const Tensor count = reduced.empty() ? largest : largest.sum(reduced, true);
    dx[0] = g.reshape(kept) * (finite + largest / count.clamp(1, {}));
  }
};

}  // namespace

Tensor Tensor::softmax(int64_t dim) const {
  detail::check_floating(*this, "softmax");
  return drivers::along<SoftmaxBackward>(&Kernels::softmax, "softmax", *this, dim);
}

Tensor Tensor::log_softmax(int64_t dim) const {
  detail::check_floating(*this, "log_softmax");
  return drivers::along<LogSoftmaxBackward>(&Kernels::log_softmax, "log_softmax", *this, dim);
}

Tensor Tensor::logsumexp(const Dims& dims, Flag keepdim) const {
  detail::check_defined(*this, "logsumexp");
  if (!is_floating(dtype())) [[unlikely]]
    return to(kFloat32).logsumexp(dims, keepdim);
  if (computed_in(dtype()) != dtype()) return wide(*this).logsumexp(dims, keepdim).to(dtype());
  const drivers::Reduced to(*this, dims, "logsumexp");
  Tensor out;
  {
    const NoGrad no_grad;
    if (numel() == 0) {
      out = sum(dims, true).log();  // of no elements: log(0); of no rows: nothing
    } else {
      // The largest element is taken out, so that nothing overflows; where it is infinite there is nothing to save.
      const Tensor largest = amax(dims, true);
      const Tensor shift = largest.masked_fill(largest.isfinite().logical_not(), 0);
      out = (*this - shift).exp().sum(dims, true).log() + shift;
    }
    out = raw::view(out, keepdim ? to.kept : to.squeezed);
  }
  if (auto* n = track<LogsumexpBackward>(out, *this)) {
    n->save(0, *this);
    n->save_output(1, out);
    n->kept = to.kept;
  }
  return out;
}

}  // namespace tendril
