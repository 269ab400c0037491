#include "tendril/tensor/random.h"

#include <limits>
#include <utility>

#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/raw.h"

namespace tendril::raw {
namespace {

uint64_t blocks_for(const Tensor& out, int per_block) {
  return (static_cast<uint64_t>(out.numel()) + static_cast<uint64_t>(per_block) - 1) / static_cast<uint64_t>(per_block);
}

int floats_per_block(DType dtype) { return dtype == kFloat64 ? 2 : 4; }

/// Runs `fill(view, place)` on `out`, by way of a contiguous tensor where it is not, with the next `blocks` of the
/// generator; again with the next ones before each replay of a recorded step.
template <class Fill>
void fill_in_order(const Tensor& out, Generator& generator, uint64_t blocks, const Fill& fill) {
  if (!out.is_contiguous()) {
    const Tensor dense = empty_like(out);
    fill_in_order(dense, generator, blocks, fill);
    return copy_(out, dense);
  }
  if (detail::Recorder* const recorder = detail::recorder(out.device())) {
    recorder->renew([fill, flat = detail::FlatView(view_of(out)), &generator, blocks](bool replaying) {
      fill(flat.view(), replaying ? generator.reserve(blocks) : Generator::State{});
    });
  } else {
    fill(view_of(out), generator.reserve(blocks));
  }
}

void check(const Tensor& out, const char* op) { detail::check_defined(out, op); }

/// The largest number of half type T below `high`.
template <class T>
double before(double high) {
  T x(static_cast<float>(high));
  if (static_cast<double>(static_cast<float>(x)) >= high) {
    const bool zero = (x.bits & 0x7fff) == 0, negative = (x.bits & 0x8000) != 0;
    x.bits = static_cast<uint16_t>(zero ? 0x8001 : negative ? x.bits + 1 : x.bits - 1);
  }
  return static_cast<double>(static_cast<float>(x));
}

}  // namespace

void uniform_(const Tensor& out, double low, double high, Generator& generator) {
  check(out, "uniform_");
  TENDRIL_CHECK(low <= high, "uniform_: the bounds ", low, " and ", high, " are not in order");
  TENDRIL_CHECK_AS(DTypeError, is_floating(out.dtype()), "uniform_: needs a floating dtype, got ", out.dtype());
  const double most = out.dtype() == kFloat64 ? std::numeric_limits<double>::max()
                                              : static_cast<double>(std::numeric_limits<float>::max());
  TENDRIL_CHECK(high - low <= most, "uniform_: high - low: got ", high - low, ", expected at most ", most, " for ",
                out.dtype());
  if (const DType wide = computed_in(out.dtype()); wide != out.dtype() && low < high) {
    // Many numbers next to `high` would be rounded to it.
    const Tensor values = empty(out.sizes(), wide, out.device());
    uniform_(values, low, high, generator);
    return copy_(out, clamp(values, {}, out.dtype() == kFloat16 ? before<Half>(high) : before<BFloat16>(high)));
  }
  const DeviceKernels table = kernels(out.device());
  const auto kernel = require(table->uniform, "uniform_", *table);
  fill_in_order(out, generator, blocks_for(out, floats_per_block(out.dtype())),
                [=](const View& view, Generator::State at) { kernel(view, low, high, at.seed, at.offset); });
}

void normal_(const Tensor& out, double mean, double stddev, Generator& generator) {
  check(out, "normal_");
  TENDRIL_CHECK(stddev >= 0, "normal_: the standard deviation must not be negative, got ", stddev);
  TENDRIL_CHECK_AS(DTypeError, is_floating(out.dtype()), "normal_: needs a floating dtype, got ", out.dtype());
  const DeviceKernels table = kernels(out.device());
  const auto kernel = require(table->normal, "normal_", *table);
  fill_in_order(out, generator, blocks_for(out, floats_per_block(out.dtype())),
                [=](const View& view, Generator::State at) { kernel(view, mean, stddev, at.seed, at.offset); });
}

void bernoulli_(const Tensor& out, double p, Generator& generator) {
  check(out, "bernoulli_");
  TENDRIL_CHECK(p >= 0 && p <= 1, "bernoulli_: the probability must be in [0, 1], got ", p);
  const DeviceKernels table = kernels(out.device());
  const auto kernel = require(table->bernoulli, "bernoulli_", *table);
  fill_in_order(out, generator, blocks_for(out, 4),
                [=](const View& view, Generator::State at) { kernel(view, p, at.seed, at.offset); });
}

void randint_(const Tensor& out, int64_t low, int64_t high, Generator& generator) {
  check(out, "randint_");
  TENDRIL_CHECK(low < high, "randint_: the range [", low, ", ", high, ") is empty");
  TENDRIL_CHECK_AS(DTypeError, out.dtype() != kBool, "randint_: not for bool");
  const DeviceKernels table = kernels(out.device());
  const auto kernel = require(table->randint, "randint_", *table);
  fill_in_order(out, generator, blocks_for(out, 2),
                [=](const View& view, Generator::State at) { kernel(view, low, high, at.seed, at.offset); });
}

Tensor randperm(int64_t n, Generator& generator) {
  TENDRIL_CHECK_AS(ShapeError, n >= 0, "randperm: the number must not be negative, got ", n);
  Tensor result = arange(0, n);
  auto* const order = static_cast<int64_t*>(result.raw_data());
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<int64_t>(generator.below(static_cast<uint64_t>(i) + 1))]);
  }
  return result;
}

}  // namespace tendril::raw
