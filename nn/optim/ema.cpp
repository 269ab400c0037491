#include "tendril/nn/optim/ema.h"

#include <string>

#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::optim {

namespace {

void write(const Tensor& out, const Tensor& value) {
  raw::copy_(out, value);
  out.storage()->bump_version();
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(const std::vector<Tensor>& params, double decay)
    : params_(params), decay_(decay) {
  const char* op = "ExponentialMovingAverage";
  TENDRIL_CHECK(decay >= 0 && decay <= 1, op, ": decay: got ", decay, ", expected a number in [0, 1]");
  TENDRIL_CHECK(!params.empty(), op, ": params: got an empty list, expected at least one parameter");
  for (std::size_t i = 0; i < params.size(); ++i) {
    TENDRIL_CHECK(params[i].defined(), op, ": params[", i, "] is an undefined tensor");
    TENDRIL_CHECK_AS(DTypeError, is_floating(params[i].dtype()), op, ": params[", i, "] has dtype ", params[i].dtype(),
                     ", expected a floating one");
  }
  for (const Tensor& param : params) {
    dtypes_.push_back(param.dtype());
    const DType wide = computed_in(param.dtype());
    averages_.push_back(wide == param.dtype() ? raw::clone(param) : raw::contiguous(raw::cast(param, wide)));
  }
}

void ExponentialMovingAverage::check() const {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor &now = params_[i], &then = averages_[i];
    TENDRIL_CHECK(now.sizes() == then.sizes() && now.dtype() == dtypes_[i] && now.device() == then.device(),
                  "ExponentialMovingAverage: parameter ", i, " is ", now.dtype(), " ", now.sizes(), " on ",
                  now.device(), ", expected ", dtypes_[i], " ", then.sizes(), " on ", then.device(),
                  " as when the averages were made");
  }
}

void ExponentialMovingAverage::update() {
  check();
  detail::refuse_recording("ExponentialMovingAverage::update");
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor &average = averages_[i], &now = params_[i];
    if (updates_ == 0) {
      raw::copy_(average, now);
    } else {  // a + (1 - decay) (p - a)
      raw::add_scaled_(average, raw::binary(Binary::sub, raw::cast(now, average.dtype()), average), 1 - decay_);
    }
    average.storage()->bump_version();
  }
  ++updates_;
}

StateDict ExponentialMovingAverage::state_dict() const {
  StateDict dict;
  dict.insert("updates", updates_);
  for (std::size_t i = 0; i < averages_.size(); ++i) dict.insert("averages." + std::to_string(i), averages_[i]);
  return dict;
}

LoadReport ExponentialMovingAverage::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "ExponentialMovingAverage::load_state_dict");
  int64_t updates = updates_;
  reader.count("updates", updates);
  std::vector<Tensor> loaded;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor& own = averages_[i];
    const Tensor* const found = reader.tensor("averages." + std::to_string(i), own.sizes(), own.dtype());
    loaded.push_back(found ? *found : own);
  }
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor copy =
        raw::empty_like(averages_[i]);  // all copies before the first is taken, by a swap that cannot fail
    raw::copy_(copy, loaded[i]);
    loaded[i] = copy;
  }
  averages_.swap(loaded);
  updates_ = updates;
  return report;
}

void ExponentialMovingAverage::copy_to_parameters() const {
  check();
  for (std::size_t i = 0; i < params_.size(); ++i) write(params_[i], averages_[i]);
}

ExponentialMovingAverage::Applied::Applied(const ExponentialMovingAverage& ema) : params_(ema.params_) {
  ema.check();
  for (const Tensor& param : params_) trained_.push_back(raw::clone(param));
  ema.copy_to_parameters();
}

ExponentialMovingAverage::Applied::~Applied() {
  for (std::size_t i = 0; i < params_.size(); ++i) write(params_[i], trained_[i]);
}

}  // namespace tendril::optim
