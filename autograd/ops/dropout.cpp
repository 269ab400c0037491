#include "tendril/autograd/ops/dropout.h"

#include "tendril/autograd/history.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// The operation is linear: its gradient is the operation again, with the same mask, which is drawn again. Each way is
/// one pass: x is read and the result written.
Tensor masked(const Tensor& x, double p, Generator::State state);

struct DropoutBackward : autograd::NodeOf<DropoutBackward, 1> {
  static constexpr const char* kName = "DropoutBackward";
  double p = 0;
  Generator::State state;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = masked(g, p, state); }
};

Tensor masked(const Tensor& x, double p, Generator::State state) {
  const Tensor given = raw::contiguous(x);
  Tensor out = raw::empty_like(given);
  const Kernels& table = kernels(x.device());
  require(table.dropout, "dropout", table)(raw::view_of(out), raw::view_of(given), p, state.seed, state.offset);
  if (auto* n = autograd::track<DropoutBackward>(out, x)) {
    n->p = p;
    n->state = state;
  }
  return out;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator& generator) {
  TENDRIL_CHECK(x.defined(), "dropout: the input is undefined");
  TENDRIL_CHECK(p >= 0 && p <= 1, "dropout: the probability must be in [0, 1], got ", p);
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), "dropout: expected a floating dtype, got ", x.dtype());
  return masked(x, p, generator.reserve((static_cast<uint64_t>(x.numel()) + 3) / 4));
}

}  // namespace tendril
