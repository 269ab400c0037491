#pragma once

#include <cstdint>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

/// Running averages of parameters, which often generalise better than the last ones:
///
///     optim::ExponentialMovingAverage ema(model.parameters(), 0.999);
///     ... opt.step(); ema.update(); ...
///     { const auto averaged = ema.apply(); evaluate(model); }   // the trained values are back afterwards
///
/// The first update copies the parameters, each later one is average <- decay average + (1 - decay) parameter, as
/// PyTorch's swa_utils.AveragedModel with get_ema_multi_avg_fn. Buffers are not averaged. Averages of float16 and
/// bfloat16 parameters are float32, and rounded once where they are written into the parameters.
/// Refers to the parameters and owns their averages. Parameters that the module gets later are not averaged; frozen
/// ones are.
/// Thread-safety: one thread at a time, and not while another reads or writes the parameters.
class ExponentialMovingAverage {
 public:
  /// Throws Error unless decay is in [0, 1] and there is a parameter, DTypeError unless all are floating.
  explicit ExponentialMovingAverage(const std::vector<Tensor>& params, double decay = 0.999);

  /// Averages the current parameters. Throws Error, and changes no average, if one was moved, cast or reshaped.
  void update();
  /// One per parameter, in their order and their dtypes, for half types float32; before the first update the
  /// parameters' initial values.
  const std::vector<Tensor>& averages() const noexcept { return averages_; }
  /// How many updates there have been.
  int64_t updates() const noexcept { return updates_; }
  /// The part of the average that stays.
  double decay() const noexcept { return decay_; }
  /// "updates" and "averages.0", "averages.1", ...; the tensors are its own: an update changes them, unless the dict is
  /// cloned. Loading takes copies; throws Error that lists all that is missing, unexpected (both only if `strict`) or
  /// does not fit, and nothing has changed then.
  StateDict state_dict() const;
  /// What state_dict gave; changes nothing where it does not fit.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});
  /// Writes the averages into the parameters, for good.
  void copy_to_parameters() const;

  /// Puts the trained values back when it ends.
  class [[nodiscard]] Applied {
   public:
    explicit Applied(const ExponentialMovingAverage& ema);
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;
    ~Applied();

   private:
    std::vector<Tensor> params_, trained_;
  };
  /// The parameters have the averages' values while the result lives.
  Applied apply() const { return Applied(*this); }

 private:
  void check() const;

  std::vector<Tensor> params_, averages_;
  std::vector<DType> dtypes_;  // of the parameters
  double decay_;
  int64_t updates_ = 0;
};

}  // namespace tendril::optim

TENDRIL_API_END
