#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "tendril/tensor/detail/out_of_memory.h"
#include "tendril/tensor/memory.h"

namespace tendril::cpu {

/// Memory for the time of one kernel, from the tensors' own pools: uninitialised. Throws Error where there is none
/// left.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)), data_(static_cast<T*>(allocate(bytes_))) {}
  ~Scratch() { memory::release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const noexcept { return data_; }

 private:
  static void* allocate(std::size_t bytes) {
    try {
      return memory::allocate(bytes);
    } catch (const std::bad_alloc&) {
      memory::detail::out_of_memory(bytes);
    }
  }

  std::size_t bytes_;
  T* data_;
};

}  // namespace tendril::cpu
