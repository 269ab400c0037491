#include "tendril/autograd/saved_hooks.h"

#include <utility>

#include "tendril/tensor/detail/switched_variable.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

constinit thread_local const SavedTensorHooks* detail::saved_tensor_hooks = nullptr;

namespace {
const auto saved_hooks_switched = tendril::detail::of_each_thread([]() -> auto& { return detail::saved_tensor_hooks; });
}

SavedTensorHooks::SavedTensorHooks(Pack pack, Unpack unpack)
    : SavedTensorHooks(std::make_shared<const detail::SavedTensorFunctions>(
          detail::SavedTensorFunctions{std::move(pack), std::move(unpack)})) {
  TENDRIL_CHECK_AS(AutogradError, functions_->pack && functions_->unpack,
                   "SavedTensorHooks: ", functions_->pack ? "unpack" : "pack", " is empty");
}

SavedTensorHooks::SavedTensorHooks(std::shared_ptr<const detail::SavedTensorFunctions> functions) noexcept
    : functions_(std::move(functions)), before_(std::exchange(detail::saved_tensor_hooks, this)) {}

SavedTensorHooks::~SavedTensorHooks() { detail::saved_tensor_hooks = before_; }

namespace {
struct Moved {
  Tensor tensor;
  Device device;
};
}  // namespace

SaveOnCpu::SaveOnCpu()
    : SavedTensorHooks(
          [](const Tensor& x) {
            return x.device().is_cpu() ? std::any(x) : std::any(Moved{raw::to(x, kCPU), x.device()});
          },
          [](const std::any& kept) {
            if (const auto* here = std::any_cast<Tensor>(&kept)) return *here;
            const auto& [tensor, device] = std::any_cast<const Moved&>(kept);
            return raw::to(tensor, device);
          }) {}

}  // namespace tendril::autograd
