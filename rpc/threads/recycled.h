#pragma once

#include <cstddef>
#include <new>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Allocates memory for objects that are created and destroyed with every call. A thread keeps the pieces that it frees
/// for its next allocations of about the same size. Large pieces, and all beyond a limit, are returned to the system.
/// Any thread may free a piece.
void* take_recycled(std::size_t bytes);
void give_recycled(void* piece, std::size_t bytes) noexcept;
/// Sets whether the calling thread keeps the pieces that it frees. A simulation turns this off.
void recycle(bool on) noexcept;

/// A base for classes whose memory is recycled. A class that is deleted through a base needs a virtual destructor.
/// Over-aligned classes, for example calls with over-aligned arguments, are not recycled.
struct Recycled {
  static void* operator new(std::size_t bytes, std::align_val_t alignment) { return ::operator new(bytes, alignment); }
  static void operator delete(void* piece, std::align_val_t alignment) noexcept { ::operator delete(piece, alignment); }
  static void* operator new(std::size_t bytes) { return take_recycled(bytes); }
  static void operator delete(void* piece, std::size_t bytes) noexcept { give_recycled(piece, bytes); }
};

/// An allocator that recycles the memory of containers.
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
