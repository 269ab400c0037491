#pragma once

#include <cstdint>

#include "tendril/tensor/kernels.h"

/// 3x3 convolutions of float32 by Winograd's form (level/winograd.cpp), which multiplies a quarter as often as the
/// definition. It errs by about 1e-6 of a result's size, direct convolution by 3e-7; an infinity or NaN reaches all
/// results of a tile of 4x4, not only those that read it. The sizes alone decide whether it is taken, and results do
/// not depend on the number of threads.
///
/// Each returns false, and has written nothing, where it is not possible or does not pay. Images in row-major and in
/// channels-last order are taken as they are; a weight may have any strides. Uses up to num_threads() threads.
namespace tendril::cpu::winograd {

/// The kernels of tensor/kernels.h; `bias` may be null.
bool conv2d(const View& out, const View& x, const View& weight, const View* bias, bool relu,
            const ConvGeometry& geometry);
bool conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry);
bool conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry);

/// How many convolutions it has made, for tests that must know which path they take.
uint64_t convolution_count() noexcept;

}  // namespace tendril::cpu::winograd
