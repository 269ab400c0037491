#include "tendril/rpc/simulation/allocations.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "tendril/rpc/simulation/world.h"

namespace tendril::rpc::detail {
namespace {

// Thread-local: allocations in other threads of the program do not fail.
constinit thread_local World* asked = nullptr;
constinit thread_local bool probed = false;  // whether operator new has been called since this was reset

/// Allocates with `obtain`, which returns null if it fails.
template <class Obtain>
void* allocate(const Obtain& obtain) {
  probed = true;
  if (asked != nullptr && asked->allocation_fails()) throw std::bad_alloc();
  for (;;) {
    if (void* const block = obtain()) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

void Allocations::fail_for(World* world) noexcept { asked = world; }

bool Allocations::can_fail() {
  probed = false;
  ::operator delete(::operator new(1));
  return probed;
}

}  // namespace tendril::rpc::detail

// Weak, so that a program can have its own. As in the standard library, all others call the first four, so a program
// may also define only some of these.
#define TENDRIL_WEAK __attribute__((weak, visibility("default")))

TENDRIL_WEAK void* operator new(std::size_t bytes) {
  return tendril::rpc::detail::allocate([&] { return std::malloc(bytes > 0 ? bytes : 1); });
}
TENDRIL_WEAK void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto multiple = static_cast<std::size_t>(alignment);
  if (bytes > SIZE_MAX - multiple) throw std::bad_alloc();
  const std::size_t rounded = (bytes + multiple - 1) / multiple * multiple;
  return tendril::rpc::detail::allocate([&] { return std::aligned_alloc(multiple, rounded > 0 ? rounded : multiple); });
}
TENDRIL_WEAK void operator delete(void* block) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }

TENDRIL_WEAK void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
TENDRIL_WEAK void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return ::operator new(bytes, alignment);
}
TENDRIL_WEAK void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return ::operator new(bytes);
} catch (...) {
  return nullptr;
}
TENDRIL_WEAK void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept try {
  return ::operator new(bytes, alignment);
} catch (...) {
  return nullptr;
}
TENDRIL_WEAK void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept try {
  return ::operator new[](bytes);
} catch (...) {
  return nullptr;
}
TENDRIL_WEAK void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept try {
  return ::operator new[](bytes, alignment);
} catch (...) {
  return nullptr;
}
TENDRIL_WEAK void operator delete[](void* block) noexcept { ::operator delete(block); }
TENDRIL_WEAK void operator delete[](void* block, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
TENDRIL_WEAK void operator delete(void* block, std::size_t) noexcept { ::operator delete(block); }
TENDRIL_WEAK void operator delete(void* block, const std::nothrow_t&) noexcept { ::operator delete(block); }
TENDRIL_WEAK void operator delete(void* block, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}
TENDRIL_WEAK void operator delete(void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ::operator delete(block, alignment);
}
TENDRIL_WEAK void operator delete[](void* block, std::size_t) noexcept { ::operator delete[](block); }
TENDRIL_WEAK void operator delete[](void* block, const std::nothrow_t&) noexcept { ::operator delete[](block); }
TENDRIL_WEAK void operator delete[](void* block, std::size_t, std::align_val_t alignment) noexcept {
  ::operator delete[](block, alignment);
}
TENDRIL_WEAK void operator delete[](void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ::operator delete[](block, alignment);
}
