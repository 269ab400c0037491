#pragma once

#include <cstddef>
#include <new>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Memory for what comes and goes with every call. A piece that is freed is kept for the next one of about that size
/// that the same thread asks for; beyond a few, and for large pieces, it is the system's. Any thread may free.
void* take_recycled(std::size_t bytes);
void give_recycled(void* piece, std::size_t bytes) noexcept;
/// Sets whether the calling thread keeps the pieces that it frees. A simulation turns this off.
void recycle(bool on) noexcept;

/// For classes that derive from it; where they are deleted through a base, by a virtual destructor. Those of a wider
/// alignment than usual, as of what a call has within, are not recycled.
struct Recycled {
  static void* operator new(std::size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
  static void operator delete(void* piece, std::align_val_t alignment) noexcept { ::operator delete(piece, alignment); }
  static void* operator new(std::size_t bytes) { return take_recycled(bytes); }
  static void operator delete(void* piece, std::size_t bytes) noexcept { give_recycled(piece, bytes); }
};

/// For containers.
template <class T>
struct RecyclingAllocator {
  using value_type = T;
  RecyclingAllocator() = default;
  template <class U>
  RecyclingAllocator(const RecyclingAllocator<U>&) noexcept {}
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  T* allocate(std::size_t count) { return static_cast<T*>(take_recycled(count * sizeof(T))); }
  void deallocate(T* piece, std::size_t count) noexcept { give_recycled(piece, count * sizeof(T)); }
  template <class U>
  bool operator==(const RecyclingAllocator<U>&) const noexcept {
    return true;
  }
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
