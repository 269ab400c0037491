#include "tendril/autograd/ops/random.h"

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/sort.h"
#include "tendril/tensor/creation.h"

namespace tendril {

namespace {

void check_weights(const Tensor& weights, int64_t samples) {
  detail::check_floating(weights, "multinomial");
  TENDRIL_CHECK_AS(ShapeError, (weights.dim() == 1 || weights.dim() == 2) && weights.size(-1) > 0,
                   "multinomial: expected weights of shape [n] or [m, n] with n above 0, got ", weights.sizes());
  TENDRIL_CHECK(samples > 0, "multinomial: expected a number of samples above 0, got ", samples);
}

void check_rows(const Tensor& rows, int64_t samples, bool replacement) {
  TENDRIL_CHECK(rows.isfinite().logical_and(rows.ge(0)).all().item<bool>(),
                "multinomial: a weight is negative or not finite");
  if (rows.numel() == 0) return;
  const int64_t possible = rows.gt(0).to(kInt64).sum({1}).min().item<int64_t>();
  TENDRIL_CHECK(possible > 0, "multinomial: all weights of a row are 0");
  TENDRIL_CHECK(replacement || possible >= samples, "multinomial: ", samples,
                " samples without replacement of a row that has ", possible, " weights above 0");
}

}  // namespace

Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement) {
  return multinomial(weights, samples, replacement, default_generator());
}

Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement, Generator& generator) {
  check_weights(weights, samples);
  const NoGrad no_grad;
  Tensor rows = (weights.dim() == 1 ? weights.unsqueeze(0) : weights).detach().to(kFloat64);
  check_rows(rows, samples, replacement);
  rows = rows / rows.amax({1}, true);  // so that sums and quotients of them are finite
  Tensor places;
  if (replacement) {
    // Below the whole sum also after rounding (a double below 1 times x is below x), so that a weight above 0 is found.
    const Tensor sums = rows.cumsum(1);
    const Tensor random = zeros({rows.size(0), samples}, {.dtype = kFloat64, .device = rows.device()});
    random.uniform_(0, 1, generator).mul_(sums.slice(1, -1));
    places = zeros(random.sizes(), {.dtype = kInt64, .device = rows.device()});
    for (int64_t i = 0; i < rows.size(0); ++i) places.select(0, i).copy_(searchsorted(sums[i], random[i], true));
  } else {
    const Tensor random = empty_like(rows);
    random.exponential_(1, generator);
    places = std::get<1>(topk(rows / random, samples, 1));
  }
  return weights.dim() == 1 ? places.squeeze(0) : places;
}

Tensor rand_like(const Tensor& x) {
  detail::check_floating(x, "rand_like");
  const Tensor made = empty_like(x);
  return made.uniform_();
}
Tensor randn_like(const Tensor& x) {
  detail::check_floating(x, "randn_like");
  const Tensor made = empty_like(x);
  return made.normal_();
}

}  // namespace tendril
