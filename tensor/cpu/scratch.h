#pragma once

#include <cstddef>
#include <cstdint>

#include "tendril/tensor/memory.h"

namespace tendril::cpu {

/// Memory for the time of one kernel, from the tensors' own pools: uninitialised. Throws std::bad_alloc.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)), data_(static_cast<T*>(memory::allocate(bytes_))) {}
  ~Scratch() { memory::release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const noexcept { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

}  // namespace tendril::cpu
