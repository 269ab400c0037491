#include "tendril/tensor/deterministic.h"

#include <atomic>

#include "tendril/tensor/cuda/runtime.h"

namespace tendril {
namespace {
std::atomic<bool> in_one_order{false};
}

void set_deterministic(bool on) noexcept {
  in_one_order.store(on, std::memory_order_relaxed);  // a setting orders nothing but itself
  cuda::set_deterministic(on);
}

bool deterministic() noexcept { return in_one_order.load(std::memory_order_relaxed); }

}  // namespace tendril
