#include "tendril/nn/distributions/categorical.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/distributions/detail/parameters.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::distributions {
namespace {

template <class F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  return dtype == kFloat32 ? f(float{}) : f(double{});
}

template <class T>
void check_probs(const T* probs, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) {
      const T p = probs[row * classes + k];
      TENDRIL_CHECK(p >= 0 && p <= std::numeric_limits<T>::max(), "Categorical: probs: class ", k, " of row ", row,
                    " is ", p, ", expected a finite number, 0 or more");
      sum += static_cast<double>(p);
    }
    TENDRIL_CHECK(sum > 0 && sum <= static_cast<double>(std::numeric_limits<T>::max()), "Categorical: probs: row ", row,
                  " sums to ", sum, ", expected a positive finite sum");
  }
}

template <class T>
void check_logits(const T* logits, int64_t rows, int64_t classes) {
  for (int64_t row = 0; row < rows; ++row) {
    bool possible = false;
    for (int64_t k = 0; k < classes; ++k) {
      const T logit = logits[row * classes + k];
      TENDRIL_CHECK(logit <= std::numeric_limits<T>::max(), "Categorical: logits: class ", k, " of row ", row, " is ",
                    logit, ", expected a finite number or -infinity");
      possible |= logit >= std::numeric_limits<T>::lowest();
    }
    TENDRIL_CHECK(possible, "Categorical: logits: row ", row, " is all -infinity, expected a class that is possible");
  }
}

void check_params(const Tensor& param, bool is_logits) {
  const char* argument = is_logits ? "logits" : "probs";
  TENDRIL_CHECK_AS(DTypeError, param.dtype() == kFloat32 || param.dtype() == kFloat64, "Categorical: ", argument,
                   " has dtype ", param.dtype(), ", expected float32 or float64");
  TENDRIL_CHECK_AS(ShapeError, param.dim() >= 1 && param.size(-1) >= 1, "Categorical: ", argument, " has shape ",
                   param.sizes(), ", expected [..., classes] with at least one class");
  const Tensor values = raw::contiguous(param.to(kCPU));
  const int64_t classes = param.size(-1), rows = param.numel() / classes;
  visit_floating(param.dtype(), [&](auto zero) {
    using T = decltype(zero);
    is_logits ? check_logits(values.data<T>(), rows, classes) : check_probs(values.data<T>(), rows, classes);
  });
}

}  // namespace

Categorical::Categorical(const CategoricalParams& params) : is_logits_(params.logits.defined()) {
  TENDRIL_CHECK(params.probs.defined() != params.logits.defined(), "Categorical: got ",
                params.probs.defined() ? "both probs and logits" : "neither probs nor logits",
                ", expected exactly one of them");
  const Tensor& given = is_logits_ ? params.logits : params.probs;
  check_params(given, is_logits_);
  param_ = is_logits_ ? given.log_softmax(-1) : given.div(given.sum({-1}, true));
}

Dims Categorical::batch_shape() const {
  Dims shape = param_.sizes();
  shape.erase(shape.size() - 1);
  return shape;
}

Tensor Categorical::probs() const { return is_logits_ ? param_.exp() : param_; }
Tensor Categorical::logits() const { return is_logits_ ? param_ : detail::clamp_probs(param_).log(); }

Tensor Categorical::sample(Generator& generator, const Dims& sample_shape) const {
  Dims shape = sample_shape;
  for (int64_t size : batch_shape()) shape.push_back(size);
  const int64_t classes = num_classes(), rows = param_.numel() / classes, samples = numel_of(sample_shape);
  const Tensor values = raw::contiguous(param_.to(kCPU));
  Tensor uniform = raw::empty({samples * rows}, kFloat64);
  raw::uniform_(uniform, 0, 1, generator);
  const double* u = uniform.data<double>();
  Tensor chosen = raw::empty(shape, kInt64);
  int64_t* out = chosen.mutable_data<int64_t>();

  visit_floating(param_.dtype(), [&](auto zero) {
    const auto* row_values = values.data<decltype(zero)>();
    std::vector<double> cumulative(static_cast<std::size_t>(classes));
    for (int64_t row = 0; row < rows; ++row, row_values += classes) {
      double sum = 0;
      for (int64_t k = 0; k < classes; ++k) {
        const auto value = static_cast<double>(row_values[k]);
        cumulative[static_cast<std::size_t>(k)] = sum += is_logits_ ? std::exp(value) : value;
      }
      for (int64_t s = 0; s < samples; ++s) {
        // The first class whose cumulative probability exceeds the draw, so never one of probability zero; u < 1 keeps
        // the product below `sum`.
        const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), u[s * rows + row] * sum);
        out[s * rows + row] = found - cumulative.begin();
      }
    }
  });
  return chosen.to(param_.device());
}

Tensor Categorical::log_prob(const Tensor& value) const {
  TENDRIL_CHECK(value.defined(), "Categorical::log_prob: value is an undefined tensor");
  TENDRIL_CHECK_AS(DTypeError, value.dtype() == kInt64, "Categorical::log_prob: value has dtype ", value.dtype(),
                   ", expected int64");
  TENDRIL_CHECK(value.device() == param_.device(), "Categorical::log_prob: value is on ", value.device(),
                ", expected the distribution's device, ", param_.device());
  const Tensor values = raw::contiguous(value);
  const Tensor read = values.to(kCPU);
  for (int64_t i = 0; i < read.numel(); ++i) {
    const int64_t k = read.data<int64_t>()[i];
    TENDRIL_CHECK_AS(IndexError, k >= 0 && k < num_classes(), "Categorical::log_prob: value: element ", i, " is ", k,
                     ", expected a class in [0, ", num_classes(), ")");
  }
  const Dims batch = batch_shape();
  const Dims shape = broadcast_shapes(value.sizes(), batch, "Categorical::log_prob");
  Tensor rows = param_;
  if (!(shape == batch)) {
    Dims row_shape = shape;
    row_shape.push_back(num_classes());
    rows = rows.expand(row_shape);
  }
  const Tensor picked = rows.gather(-1, raw::unsqueeze(raw::expand(values, shape), -1)).squeeze(-1);
  return is_logits_ ? picked : detail::clamp_probs(picked).log();
}

Tensor Categorical::entropy() const {
  // A class at -infinity adds 0 * -infinity. e^-1e4 is 0 in every dtype, so the bound changes no value.
  const Tensor log_p = is_logits_ ? param_.clamp(-1e4, std::nullopt) : logits();
  return log_p.mul(probs()).sum({-1}).neg();
}

Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  constexpr const char* op = "kl_divergence";
  detail::check_value(op, p.param_, q.param_);
  TENDRIL_CHECK_AS(ShapeError, p.num_classes() == q.num_classes(), op, ": the distributions are of ", p.num_classes(),
                   " and ", q.num_classes(), " classes, expected as many");
  const auto never = [](const Categorical& of) { return of.probs().detach().eq(0); };
  // Logarithms of 0 are bounded, for what is infinite has no gradient to be multiplied by 0.
  const auto logarithms = [](const Categorical& of) { return of.logits().clamp(-1e4, std::nullopt); };
  const Tensor each = p.probs() * (logarithms(p) - logarithms(q));
  return where(never(p), 0.0, where(never(q), HUGE_VAL, each)).sum({-1});
}

}  // namespace tendril::distributions
