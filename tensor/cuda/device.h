#pragma once

namespace tendril::cuda {

/// Exactly one of device.cpp and absent.cpp defines it: only tensor/cuda knows whether CUDA was found.
int device_count() noexcept;

}  // namespace tendril::cuda
