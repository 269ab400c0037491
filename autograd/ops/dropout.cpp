#include "tendril/autograd/ops/dropout.h"

#include <memory>

#include "tendril/autograd/history.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// Which elements stay.
struct Mask {
  double p = 0;
  Generator::State at;  ///< where its numbers begin
  /// Of a recorded step: where those of the latest replay do.
  std::shared_ptr<const Generator::State> replayed;

  Generator::State now() const { return replayed ? *replayed : at; }
};

/// The operation is linear: its gradient is the operation again, with the same mask, which is drawn again. Each way is
/// one pass: x is read and the result written.
Tensor masked(const Tensor& x, const Mask& mask);

struct DropoutBackward : autograd::NodeOf<DropoutBackward, 1> {
  static constexpr const char* kName = "DropoutBackward";
  Mask mask;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = masked(g, mask); }
};

Tensor masked(const Tensor& x, const Mask& mask) {
  const Tensor given = raw::contiguous(x);
  Tensor out = raw::empty_like(given);
  const DeviceKernels table = kernels(x.device());
  const auto kernel = require(table->dropout, "dropout", *table);
  if (detail::Recorder* const recorder = detail::recorder(x.device()); recorder && mask.replayed) {
    recorder->renew([=, to = detail::FlatView(raw::view_of(out)), from = detail::FlatView(raw::view_of(given))](bool) {
      kernel(to.view(), from.view(), mask.p, mask.now().seed, mask.now().offset);
    });
  } else {
    kernel(raw::view_of(out), raw::view_of(given), mask.p, mask.now().seed, mask.now().offset);
  }
  if (auto* n = autograd::track<DropoutBackward>(out, x)) n->mask = mask;
  return out;
}

/// The next `blocks` of the generator; drawn anew by each replay of a recorded step.
Mask draw(double p, uint64_t blocks, Generator& generator, Device device) {
  detail::Recorder* const recorder = detail::recorder(device);
  if (!recorder) return {p, generator.reserve(blocks), nullptr};
  const auto at = std::make_shared<Generator::State>();
  recorder->renew([&generator, at, blocks](bool replaying) {
    if (replaying) *at = generator.reserve(blocks);
  });
  return {p, {}, at};
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Generator& generator) {
  TENDRIL_CHECK(x.defined(), "dropout: the input is undefined");
  TENDRIL_CHECK(p >= 0 && p <= 1, "dropout: the probability must be in [0, 1], got ", p);
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), "dropout: expected a floating dtype, got ", x.dtype());
  return masked(x, draw(p, (static_cast<uint64_t>(x.numel()) + 3) / 4, generator, x.device()));
}

}  // namespace tendril
