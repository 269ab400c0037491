#include "tendril/rpc/simulation/allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

#include "tendril/rpc/simulation/world.h"

namespace tendril::rpc::detail {
namespace {

constinit World* asked = nullptr;
constinit bool probed = false;  // whether operator new has been called since this was reset

void* allocate(std::size_t bytes, std::size_t alignment) {
  probed = true;
  if (asked != nullptr && asked->allocation_fails()) throw std::bad_alloc();
  if (bytes == 0) bytes = 1;
  for (;;) {
    void* const block = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                            ? std::malloc(bytes)
                            : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (block != nullptr) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void* try_to_allocate(std::size_t bytes, std::size_t alignment) noexcept try {
  return allocate(bytes, alignment);
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace

void Allocations::fail_for(World* world) noexcept { asked = world; }

bool Allocations::can_fail() {
  probed = false;
  ::operator delete(::operator new(1));
  return probed;
}

}  // namespace tendril::rpc::detail

// Weak, so that a program can define its own.
#define TENDRIL_WEAK __attribute__((weak, visibility("default")))
using tendril::rpc::detail::allocate;
using tendril::rpc::detail::try_to_allocate;

TENDRIL_WEAK void* operator new(std::size_t bytes) { return allocate(bytes, 0); }
TENDRIL_WEAK void* operator new[](std::size_t bytes) { return allocate(bytes, 0); }
TENDRIL_WEAK void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return try_to_allocate(bytes, 0); }
TENDRIL_WEAK void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return try_to_allocate(bytes, 0);
}
TENDRIL_WEAK void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
TENDRIL_WEAK void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
TENDRIL_WEAK void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_to_allocate(bytes, static_cast<std::size_t>(alignment));
}
TENDRIL_WEAK void* operator new[](std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_to_allocate(bytes, static_cast<std::size_t>(alignment));
}
TENDRIL_WEAK void operator delete(void* block) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete[](void* block) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete(void* block, std::size_t) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
TENDRIL_WEAK void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
