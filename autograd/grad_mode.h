#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Whether operations are recorded, per thread. New threads start with recording on.
namespace tendril::autograd {

namespace detail {
extern constinit thread_local bool grad_enabled;
}

/// Whether operations of this thread are recorded.
inline bool grad_enabled() noexcept { return detail::grad_enabled; }

/// Sets the mode of the calling thread for the guard's lifetime, then restores it. Guards nest.
class SetGrad {
 public:
  explicit SetGrad(bool enabled) noexcept : before_(detail::grad_enabled) { detail::grad_enabled = enabled; }
  ~SetGrad() { detail::grad_enabled = before_; }
  SetGrad(const SetGrad&) = delete;
  SetGrad& operator=(const SetGrad&) = delete;

 private:
  bool before_;
};

/// Nothing is recorded: results do not require gradients, and leaves may be changed in place.
struct NoGrad : SetGrad {
  NoGrad() noexcept : SetGrad(false) {}
};

/// Recording is on again inside a NoGrad.
struct EnableGrad : SetGrad {
  EnableGrad() noexcept : SetGrad(true) {}
};

}  // namespace tendril::autograd

namespace tendril {
using autograd::EnableGrad;
using autograd::NoGrad;
using NoGradGuard = NoGrad;  ///< LibTorch's name for it
}  // namespace tendril

TENDRIL_API_END
