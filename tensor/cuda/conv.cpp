#include "tendril/tensor/cuda/conv.h"

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/math_mode.h"

namespace tendril::cuda {

const char* name_of(ConvMap map) noexcept {
  switch (map) {
    case ConvMap::out:
      return "conv2d";
    case ConvMap::data:
      return "conv2d_data";
    default:
      return "conv2d_filter";
  }
}

namespace {

void convolve(const Conv& conv) {
  const View& result = conv.result();
  const char* op = name_of(conv.map);
  TENDRIL_CHECK_AS(DTypeError, is_floating(result.dtype), op, ": no cuda kernel for ", result.dtype);
  if (result.numel == 0) return;
  if (conv.x.numel == 0 || conv.weight.numel == 0 || conv.out.numel == 0) {  // sums of nothing
    return require(table.fill, "fill", table)(result, Scalar(0));
  }
  const bool done = cudnn_enabled() && convolve_by_cudnn(conv);
  if (!done) convolve_by_products(conv);
  detail::count_convolution(done);
}

}  // namespace

void conv2d(const View& out, const View& x, const View& weight, const ConvGeometry& geometry) {
  convolve({ConvMap::out, x, weight, out, geometry});
}
void conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry) {
  convolve({ConvMap::data, x, weight, out, geometry});
}
void conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry) {
  convolve({ConvMap::filter, x, weight, out, geometry});
}

}  // namespace tendril::cuda
