#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

struct GradScalerOptions {
  double init_scale = 65536;       ///< what losses are multiplied by at first: a float32 of 1.2e-38 or more
  double growth_factor = 2;        ///< above 1
  double backoff_factor = 0.5;     ///< in (0, 1)
  int64_t growth_interval = 2000;  ///< steps without an infinite gradient before the scale grows
  bool enabled = true;             ///< false: everything is done as without a scaler
};

/// Keeps gradients that pass through float16 within its range (PyTorch's torch.amp.GradScaler): the loss is multiplied
/// by a number, the gradients divided by it before the step; a step with a gradient that is infinite or NaN is left
/// out, and the number falls; after many without it grows.
///
///     scaler.scale(loss).backward();
///     scaler.unscale_(optimizer);            // only if something looks at the gradients, as clipping does
///     nn::utils::clip_grad_norm_(parameters, 1.0);
///     scaler.step(optimizer);
///     scaler.update();
///
/// Nothing waits for a device before `step`. Thread-safety: one thread at a time.
class GradScaler {
 public:
  /// Error for numbers outside of the ranges above.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// x times the scale, recorded. A 0-d loss of a half type becomes float32. In a step that a cuda::Graph records: the
  /// scale of each replay; the other functions are called after one.
  Tensor scale(const Tensor& x) const;
  /// Divides the gradients of the optimizer's parameters, in place, and notes whether all are finite. Error if that was
  /// done since the last update, or after its step, and DTypeError for gradients of float16 (keep such parameters in
  /// float32, and cast by Autocast); nothing has changed then.
  void unscale_(Optimizer& optimizer);
  /// Unscales unless that was done, and steps unless a gradient is not finite. Returns whether it stepped. Error if it
  /// was called since the last update, or if no parameter has a gradient.
  bool step(Optimizer& optimizer);
  /// Once behind the steps of all optimizers: sets the scale for the next iteration, or to `new_scale`. Error unless
  /// one was unscaled or stepped, or new_scale is out of range.
  void update(std::optional<double> new_scale = {});

  /// What losses are multiplied by now.
  double get_scale() const noexcept { return options_.enabled ? scale_ : 1; }
  /// What it was made with.
  const GradScalerOptions& options() const noexcept { return options_; }
  /// Whether it does anything.
  bool is_enabled() const noexcept { return options_.enabled; }

  /// PyTorch's names: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker; empty if not enabled.
  StateDict state_dict() const;
  /// Error that lists what does not fit; nothing has changed then.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

 private:
  enum class Stage : uint8_t { ready, unscaled, stepped };
  struct Iteration {
    Stage stage = Stage::ready;
    std::vector<Tensor> finite;  ///< bool, 0-d, of each gradient
  };
  static bool all_finite(const Iteration& iteration);

  GradScalerOptions options_;
  double scale_;
  int64_t growth_tracker_ = 0;  ///< steps since the scale changed
  std::unordered_map<const Optimizer*, Iteration> iterations_;
};

}  // namespace tendril::optim

TENDRIL_API_END
