#pragma once

#include "tendril/tensor/cpu/onednn.h"

namespace tendril::cpu {

/// Below so many multiplications, of one group and in row-major order, oneDNN's call takes longer than our own loops'
/// whole convolution (bench/nn's tiny CNN): it makes its objects anew each time.
constexpr int64_t kFewMultiplications = 64 * 1024;

/// A float32 convolution (onednn.h) in parts, each by oneDNN on one of our threads. Images are shared out, or output
/// channels (for the gradient of x its channels), whichever makes the more even parts and has less read by all; rows of
/// one image in channels-last order, or of few channels. The sizes and num_threads() decide the parts, not how many
/// threads can be had. False: oneDNN has none for these sizes, or they are few; the result, if there is anything in it,
/// means nothing. `bias` and `prepared` (kernels.h) may be null; the former is for Map::result alone.
bool convolve_in_parts(onednn::Map map, const View& x, const View& weight, const View& out,
                       const ConvGeometry& geometry, const View* bias = nullptr,
                       detail::PreparedForms* prepared = nullptr);

}  // namespace tendril::cpu
