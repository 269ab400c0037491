#include "tendril/nn/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"

namespace tendril::optim {
namespace {

/// Scales are what a float32 holds, as PyTorch's.
double as_float(double scale) { return static_cast<double>(static_cast<float>(scale)); }

/// The least scale: its inverse, too, is finite in float32.
constexpr double kLeastScale = std::numeric_limits<float>::min();

void check_scale(const char* op, const char* name, double scale) {
  TENDRIL_CHECK(std::isfinite(as_float(scale)) && as_float(scale) >= kLeastScale, op, ": ", name, ": got ", scale,
                ", expected a finite float32 of ", kLeastScale, " or more");
}

void validate_scaler(const char* op, const GradScalerOptions& options) {
  check_scale(op, "init_scale", options.init_scale);
  TENDRIL_CHECK(std::isfinite(options.growth_factor) && options.growth_factor > 1, op, ": growth_factor: got ",
                options.growth_factor, ", expected a number above 1");
  TENDRIL_CHECK(options.backoff_factor > 0 && options.backoff_factor < 1, op, ": backoff_factor: got ",
                options.backoff_factor, ", expected a number in (0, 1)");
  TENDRIL_CHECK(options.growth_interval > 0, op, ": growth_interval: got ", options.growth_interval,
                ", expected a positive number");
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(as_float(options.init_scale)) {
  validate_scaler("GradScaler", options);
}

Tensor GradScaler::scale(const Tensor& x) const {
  tendril::detail::check_defined(x, "GradScaler::scale", "x");
  if (!options_.enabled) return x;
  TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), "GradScaler::scale: x has dtype ", x.dtype(),
                   ", expected a floating one");
  const Tensor factor = raw::empty({}, kFloat32, x.device());
  if (tendril::detail::Recorder* const recorder = tendril::detail::recorder(x.device())) {
    recorder->renew([this, factor](bool) { raw::fill_(factor, scale_); });
  } else {
    raw::fill_(factor, scale_);
  }
  return x * factor;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  constexpr const char* op = "GradScaler::unscale_";
  detail::refuse_recording(op);
  const Stage stage = iterations_[&optimizer].stage;
  TENDRIL_CHECK(stage != Stage::unscaled, op, ": called for this optimizer since the last update, expected once");
  TENDRIL_CHECK(stage != Stage::stepped, op, ": called after step, expected before it");
  const std::vector<Tensor>& parameters = optimizer.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    TENDRIL_CHECK_AS(DTypeError, !parameters[i].grad().defined() || parameters[i].grad().dtype() != kFloat16, op,
                     ": the gradient of parameter ", i,
                     " is float16, expected another dtype (keep parameters in "
                     "float32 and let Autocast cast them)");
    if (parameters[i].grad().defined()) autograd::check_inplace(parameters[i].grad(), false);
  }
  const double inverse = as_float(1 / scale_);
  Iteration now{Stage::unscaled, {}};
  for (const Tensor& parameter : parameters) {
    const Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    now.finite.push_back(drivers::reduce(Reduction::all, raw::predicate(Predicate::isfinite, grad)));
    raw::binary_(Binary::mul, grad, inverse);
    grad.storage()->bump_version();
  }
  iterations_[&optimizer] = std::move(now);
}

bool GradScaler::all_finite(const Iteration& iteration) {
  for (const Tensor& one : iteration.finite) {
    if (!one.item<bool>()) return false;
  }
  return true;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  constexpr const char* op = "GradScaler::step";
  detail::refuse_recording(op);
  Iteration& iteration = iterations_[&optimizer];
  TENDRIL_CHECK(iteration.stage != Stage::stepped, op,
                ": called for this optimizer since the last update, expected once");
  if (iteration.stage == Stage::ready) unscale_(optimizer);
  if (iteration.finite.empty()) iteration = {};
  TENDRIL_CHECK(!iteration.finite.empty(), op, ": no parameter has a gradient, expected at least one (backward first)");
  const bool finite = all_finite(iteration);
  if (finite) optimizer.step();
  iteration.stage = Stage::stepped;
  return finite;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  detail::refuse_recording("GradScaler::update");
  if (new_scale) {
    check_scale("GradScaler::update", "new_scale", *new_scale);
    scale_ = as_float(*new_scale);
  } else {
    bool seen = false, finite = true;
    for (const auto& [optimizer, iteration] : iterations_) {
      seen |= !iteration.finite.empty();
      finite &= all_finite(iteration);
    }
    TENDRIL_CHECK(seen, "GradScaler::update: no optimizer was unscaled or stepped, expected one since the last update");
    if (!finite) {
      scale_ = std::max(as_float(scale_ * options_.backoff_factor), kLeastScale);
      growth_tracker_ = 0;
    } else if (++growth_tracker_ == options_.growth_interval) {
      if (const double grown = as_float(scale_ * options_.growth_factor); std::isfinite(grown)) scale_ = grown;
      growth_tracker_ = 0;
    }
  }
  iterations_.clear();
}

StateDict GradScaler::state_dict() const {
  StateDict dict;
  if (!options_.enabled) return dict;
  dict.insert("scale", scale_);
  dict.insert("growth_factor", options_.growth_factor);
  dict.insert("backoff_factor", options_.backoff_factor);
  dict.insert("growth_interval", options_.growth_interval);
  dict.insert("_growth_tracker", growth_tracker_);
  return dict;
}

LoadReport GradScaler::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  constexpr const char* op = "GradScaler::load_state_dict";
  StateReader reader(dict, op);
  GradScalerOptions loaded = options_;
  double scale = scale_;
  int64_t tracker = growth_tracker_;
  if (options_.enabled) {
    reader.number("scale", scale);
    reader.number("growth_factor", loaded.growth_factor);
    reader.number("backoff_factor", loaded.backoff_factor);
    reader.number("growth_interval", loaded.growth_interval);
    reader.number("_growth_tracker", tracker);
    loaded.init_scale = scale;
    try {
      validate_scaler(op, loaded);
    } catch (const Error& error) {
      reader.refuse("options", error.what());
    }
    if (tracker < 0) reader.refuse("_growth_tracker", "got a negative number");
  }
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  options_ = loaded;
  scale_ = as_float(scale);
  growth_tracker_ = tracker;
  iterations_.clear();
  return report;
}

}  // namespace tendril::optim
