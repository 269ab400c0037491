#include "tendril/autograd/grad_mode.h"

#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::autograd::detail {
constinit thread_local bool grad_enabled = true;

namespace {
const auto grad_enabled_switched = tendril::detail::of_each_thread(
    []() -> auto& { return grad_enabled; }, [] { return true; });
}
}  // namespace tendril::autograd::detail
