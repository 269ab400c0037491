#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

namespace tendril::cuda {

/// Bytes of the current device where kernels that move 16 of them at a time (a tensor core's) may read or write them:
/// where they are, if that is a multiple of 16, as every tensor but some views is; else a copy in scratch memory.
/// May go while such kernels still run on the current stream.
class Aligned {
 public:
  /// What is at `data`, for reading; null stays null. Once.
  const void* read(const char* op, const void* data, std::size_t bytes) {
    if (fits(data)) return data;
    TENDRIL_CUDA(op, cudaMemcpyAsync, copy_.emplace(bytes).data(), data, bytes, cudaMemcpyDeviceToDevice,
                 current_stream());
    return copy_->data();
  }
  /// Where to write what is to be at `data`; null stays null. Once; `written` follows.
  void* write(void* data, std::size_t bytes) {
    if (fits(data)) return data;
    to_ = data;
    bytes_ = bytes;
    return copy_.emplace(bytes).data();
  }
  void written(const char* op) const {
    if (to_) {
      TENDRIL_CUDA(op, cudaMemcpyAsync, to_, copy_->data(), bytes_, cudaMemcpyDeviceToDevice, current_stream());
    }
  }

 private:
  static bool fits(const void* data) noexcept { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

  std::optional<Workspace> copy_;
  void* to_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tendril::cuda
