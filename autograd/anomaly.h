#pragma once

#include <span>

#include "tendril/autograd/node.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::autograd {

namespace detail {
/// Throws AutogradError naming the forward operation, and where it was recorded, if any of its gradients has a NaN.
void check_for_nan(const Node& node, std::span<const Tensor> input_grads);
}  // namespace detail

/// While it lives, backward runs of the calling thread stop at the first operation that gives a NaN gradient, with its
/// name in the error (AutogradError), and the functions that recorded it, innermost first, if that was under a
/// DetectAnomaly, too. Names are those of the program's symbol table; with debug information `addr2line` makes lines of
/// source from the addresses beside them. Costs a pass over every gradient, and a backtrace for every operation.
class DetectAnomaly {
 public:
  explicit DetectAnomaly(bool enabled = true) noexcept : before_(detail::anomaly_detection) {
    detail::anomaly_detection = enabled;
  }
  ~DetectAnomaly() { detail::anomaly_detection = before_; }
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool before_;
};

}  // namespace tendril::autograd

TENDRIL_API_END
