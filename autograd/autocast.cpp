#include "tendril/autograd/autocast.h"

#include <unordered_map>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::autograd {

constinit thread_local detail::AutocastThread detail::autocast_thread;

namespace {
const auto state_switched = tendril::detail::of_each_thread([]() -> auto& { return detail::autocast_thread; });
}

namespace {

/// A parameter and its cast. The parameter is kept, so that its address is nobody else's.
struct Cast {
  Tensor parameter, cast;
  uint32_t version = 0;
  uint64_t recorder = 0;  ///< of the step that is recorded (tensor/detail/replay.h), and no other's; 0: of none
};
thread_local std::unordered_map<const TensorImpl*, Cast> casts;
const auto casts_switched = tendril::detail::of_each_thread([]() -> auto& { return casts; });

}  // namespace

Autocast::Autocast(const AutocastOptions& options) : before_(detail::autocast_thread.state) {
  TENDRIL_CHECK_AS(DTypeError, computed_in(options.dtype) != options.dtype, "Autocast: dtype: got ", options.dtype,
                   ", expected bfloat16 or float16");
  detail::autocast_thread.state = options;
  ++detail::autocast_thread.depth;
}

Autocast::~Autocast() {
  detail::autocast_thread.state = before_;
  if (--detail::autocast_thread.depth == 0) casts.clear();
}

AutocastOptions autocast_state() noexcept { return detail::autocast_thread.state; }

Tensor detail::lowered(const Tensor& x) {
  const AutocastOptions& state = autocast_thread.state;
  if (!x.defined() || !is_floating(x.dtype()) || x.dtype() == kFloat64 || x.dtype() == state.dtype) return x;
  if (!state.cache || x.dtype() != kFloat32 || !x.requires_grad() || !x.is_leaf() || x.storage()->may_change_unseen()) {
    return x.to(state.dtype);
  }
  const tendril::detail::Recorder* const recorder = tendril::detail::recorder();
  const uint64_t record = recorder ? recorder->number() : 0;
  const auto found = casts.find(x.impl());
  if (found != casts.end()) {
    const Cast& kept = found->second;
    const bool recorded = kept.cast.requires_grad();
    if (kept.version == x.version() && kept.recorder == record && kept.cast.dtype() == state.dtype &&
        (recorded || !autograd::grad_enabled())) {
      return kept.cast;
    }
  }
  Tensor cast = x.to(state.dtype);
  casts.insert_or_assign(x.impl(), Cast{x, cast, x.version(), record});
  return cast;
}

Tensor detail::raised(const Tensor& x) { return is_raised(x) ? x.to(kFloat32) : x; }

}  // namespace tendril::autograd
