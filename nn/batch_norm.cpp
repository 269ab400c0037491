#include "tendril/nn/batch_norm.h"

#include <sstream>
#include <utility>

#include "tendril/autograd/ops/norm.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

BatchNorm::BatchNorm(const char* op, int64_t num_features, const BatchNormOptions& options)
    : num_features_(num_features), options_(options) {
  TENDRIL_CHECK(num_features > 0, op, ": num_features: got ", num_features, ", expected a positive number");
  TENDRIL_CHECK(options.eps >= 0, op, ": eps: got ", options.eps, ", expected a number of 0 or more");
  TENDRIL_CHECK(options.momentum >= 0 && options.momentum <= 1, op, ": momentum: got ", options.momentum,
                ", expected a number in [0, 1]");
  if (options.affine) {
    weight = raw::ones({num_features}, options.dtype, options.device);
    bias = raw::zeros({num_features}, options.dtype, options.device);
    register_parameter("weight", weight);
    register_parameter("bias", bias);
  }
  if (options.track_running_stats) {
    running_mean = raw::zeros({num_features}, computed_in(options.dtype), options.device);
    running_var = raw::ones({num_features}, computed_in(options.dtype), options.device);
    num_batches_tracked = raw::zeros({}, kInt64, options.device);
    register_statistic("running_mean", running_mean);
    register_statistic("running_var", running_var);
    register_buffer("num_batches_tracked", num_batches_tracked);
  }
}

BatchNorm::BatchNorm(BatchNorm&& from, const std::type_info& type, Extent object)
    : Module(std::move(from), type, object),
      weight(std::move(from.weight)),
      bias(std::move(from.bias)),
      running_mean(std::move(from.running_mean)),
      running_var(std::move(from.running_var)),
      num_batches_tracked(std::move(from.num_batches_tracked)),
      num_features_(from.num_features_),
      options_(from.options_) {}

Tensor BatchNorm1d::forward(const Tensor& x) {
  TENDRIL_CHECK(x.defined(), "BatchNorm1d: x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, (x.dim() == 2 || x.dim() == 3) && x.size(1) == num_features(),
                   "BatchNorm1d: x has shape ", x.sizes(), ", expected [batch, ", num_features(), "] or [batch, ",
                   num_features(), ", length]");
  return normalise(x);
}

namespace {

void check_images(const Tensor& x, int64_t features) {
  TENDRIL_CHECK(x.defined(), "BatchNorm2d: x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 4 && x.size(1) == features, "BatchNorm2d: x has shape ", x.sizes(),
                   ", expected [batch, ", features, ", height, width]");
}

}  // namespace

Tensor BatchNorm2d::forward(const Tensor& x) {
  check_images(x, num_features());
  return normalise(x);
}

Tensor BatchNorm2d::forward_relu(const Tensor& x, const Tensor& residual) {
  check_images(x, num_features());
  return normalise_relu(x, residual);
}

Tensor BatchNorm::normalise(const Tensor& x) {
  return normalise_by([&](bool training, double momentum) {
    return batch_norm(x, running_mean, running_var, weight, bias, training, momentum, options_.eps);
  });
}

Tensor BatchNorm::normalise_relu(const Tensor& x, const Tensor& residual) {
  return normalise_by([&](bool training, double momentum) {
    return batch_norm_relu(x, running_mean, running_var, weight, bias, {residual, training, momentum, options_.eps});
  });
}

/// call(training, momentum), in training with what it does to the number of batches.
template <class Normalise>
Tensor BatchNorm::normalise_by(const Normalise& call) {
  const bool tracked = running_mean.defined();
  if (!is_training() || !tracked) return call(!tracked, 0);
  // Only a plain mean needs to know the number here, which on a device has to be waited for.
  const double momentum =
      options_.cumulative ? 1 / static_cast<double>(num_batches_tracked.item<int64_t>() + 1) : options_.momentum;
  Tensor y = call(true, momentum);
  raw::binary_(Binary::add, num_batches_tracked, 1);
  num_batches_tracked.storage()->bump_version();
  return y;
}

void BatchNorm::reset_running_stats() {
  if (!running_mean.defined()) return;
  raw::fill_(running_mean, 0);
  raw::fill_(running_var, 1);
  raw::fill_(num_batches_tracked, 0);
  for (const Tensor& buffer : {running_mean, running_var, num_batches_tracked}) buffer.storage()->bump_version();
}

std::string BatchNorm::extra_repr() const {
  std::ostringstream out;
  out << num_features_ << ", eps=" << options_.eps << ", momentum=";
  if (options_.cumulative) {
    out << "none";
  } else {
    out << options_.momentum;
  }
  out << ", affine=" << (weight.defined() ? "true" : "false")
      << ", track_running_stats=" << (running_mean.defined() ? "true" : "false");
  return out.str();
}

}  // namespace tendril::nn
