#pragma once

#include <tendril/tensor/device.h>

#include "../kernels.h"

/// The lessons for a CUDA device. Needs a build with the CUDA backend or its emulator.
namespace kernels::on_cuda {

inline constexpr tendril::Device kDevice{tendril::DeviceType::cuda, 0};

/// Like kernels::compare, for versions that launch kernels in the current stream. `result` is on the device.
bool compare(const std::string& title, const Work& work, const tendril::Tensor& result, double tolerance,
             const std::vector<Version>& versions);

bool matmul(bool quick);
bool softmax(bool quick);
bool layer_norm(bool quick);
bool convolution(bool quick);

}  // namespace kernels::on_cuda
