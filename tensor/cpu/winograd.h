#pragma once

#include <cstdint>

#include "tendril/tensor/kernels.h"

/// 3x3 convolutions of float32 by Winograd's form (level/winograd.cpp), which multiplies a quarter as often as the
/// definition. Over 64 channels of normal numbers its error is 8e-7 of the results' size, as root mean squares, where
/// direct convolution's is 3e-7. It goes by the largest numbers of a patch of 6x6 pixels, and so also reaches those of
/// a tile's 4x4 results that do not read them; so does an infinity or NaN. One in a kernel reaches all results of its
/// channels. Results do not depend on the number of threads.
///
/// Each returns false, and has written nothing, where it is not possible or does not pay, which the sizes and strides
/// alone decide. Images in row-major and in channels-last order are taken as they are; a weight may have any strides.
/// Uses up to num_threads() threads, and four times the weight's memory and more. Throws Error where there is no
/// memory left.
namespace tendril::cpu::winograd {

/// The kernels of tensor/kernels.h; `bias` and `prepared` may be null.
bool conv2d(const View& out, const View& x, const View& weight, const View* bias, bool relu,
            const ConvGeometry& geometry, detail::PreparedForms* prepared = nullptr);
bool conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry,
                 detail::PreparedForms* prepared = nullptr);
bool conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry);

}  // namespace tendril::cpu::winograd
