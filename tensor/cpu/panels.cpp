#include "tendril/tensor/cpu/panels.h"

#include <algorithm>
#include <new>

#include "tendril/tensor/memory.h"

namespace tendril::cpu {
namespace {

/// Threads keep blocks of up to kMediumLimit for themselves. Few bytes they may; above that, the shared pool is asked,
/// for one size whatever the product, so that a block serves the next one.
constexpr std::size_t kOwn = std::size_t{32} << 10;

std::size_t bytes_to_ask_for(std::size_t bytes) noexcept {
  constexpr std::size_t kShared = memory::kMediumLimit + memory::kMediumLimit / 8;
  return bytes <= kOwn ? bytes : std::max(bytes, kShared);
}

}  // namespace

void* borrow_panels(std::size_t bytes) noexcept {
  try {
    return memory::allocate(bytes_to_ask_for(bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void return_panels(void* panels, std::size_t bytes) noexcept { memory::release(panels, bytes_to_ask_for(bytes)); }

}  // namespace tendril::cpu
