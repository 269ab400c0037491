#pragma once

#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

/// How images are taken, and the result given: as x lies, where the device's kernels know it.
inline MemoryFormat image_format(const Tensor& x) {
  return kernels(x.device())->channels_last ? x.suggest_memory_format() : MemoryFormat::contiguous;
}

}  // namespace tendril::autograd::detail
