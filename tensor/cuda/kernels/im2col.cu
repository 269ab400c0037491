#include "tendril/tensor/cuda/kernels/conv.h"
#include "tendril/tensor/cuda/kernels/element.cuh"

namespace tendril::cuda {
namespace {

/// ColumnsShape in the index type of the kernel.
template <class I>
struct Shape {
  I channels, h, w, kernel_h, kernel_w, p, q;
  I stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  int64_t image_stride, row, image, total;

  Shape(const ColumnsShape& s, int64_t items)
      : channels(static_cast<I>(s.channels)),
        h(static_cast<I>(s.h)),
        w(static_cast<I>(s.w)),
        kernel_h(static_cast<I>(s.kernel_h)),
        kernel_w(static_cast<I>(s.kernel_w)),
        p(static_cast<I>(s.p)),
        q(static_cast<I>(s.q)),
        stride_h(static_cast<I>(s.geometry.stride.h)),
        stride_w(static_cast<I>(s.geometry.stride.w)),
        padding_h(static_cast<I>(s.geometry.padding.h)),
        padding_w(static_cast<I>(s.geometry.padding.w)),
        dilation_h(static_cast<I>(s.geometry.dilation.h)),
        dilation_w(static_cast<I>(s.geometry.dilation.w)),
        image_stride(s.image_stride),
        row(s.row),
        image(s.image),
        total(items) {}
};

/// A thread for each element of the columns; neighbours write side by side. T is any type of the element's size.
template <class T, class I>
__global__ void __launch_bounds__(kGridThreads) gather_columns(const T* x, T* columns, Shape<I> s) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < s.total; at += step) {
    I rest = static_cast<I>(at);
    const I j = rest % s.q;
    rest /= s.q;
    const I i = rest % s.p;
    rest /= s.p;
    const I rows = s.channels * s.kernel_h * s.kernel_w;
    const I row = rest % rows, image = rest / rows;
    const I l = row % s.kernel_w, k = row / s.kernel_w % s.kernel_h, channel = row / (s.kernel_w * s.kernel_h);
    const I y = i * s.stride_h + k * s.dilation_h - s.padding_h, z = j * s.stride_w + l * s.dilation_w - s.padding_w;
    const bool inside = y >= 0 && y < s.h && z >= 0 && z < s.w;
    columns[row * s.row + image * s.image + i * s.q + j] =
        inside ? x[image * s.image_stride + (channel * s.h + y) * s.w + z] : T(0);
  }
}

/// A thread for each element of x, which looks for the places that see it: no two threads write to one element.
template <class T, class I>
__global__ void __launch_bounds__(kGridThreads, 1) sum_columns(const T* columns, T* x, Shape<I> s) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < s.total; at += step) {
    I rest = static_cast<I>(at);
    const I z = rest % s.w;
    rest /= s.w;
    const I y = rest % s.h;
    rest /= s.h;
    const I channel = rest % s.channels, image = rest / s.channels;
    Compute<T> sum = 0;
    for (I k = 0; k < s.kernel_h; ++k) {
      const I down = y + s.padding_h - k * s.dilation_h;
      if (down < 0 || down % s.stride_h != 0 || down / s.stride_h >= s.p) continue;
      for (I l = 0; l < s.kernel_w; ++l) {
        const I right = z + s.padding_w - l * s.dilation_w;
        if (right < 0 || right % s.stride_w != 0 || right / s.stride_w >= s.q) continue;
        const I row = (channel * s.kernel_h + k) * s.kernel_w + l;
        sum += to_compute(columns[row * s.row + image * s.image + down / s.stride_h * s.q + right / s.stride_w]);
      }
    }
    x[image * s.image_stride + (channel * s.h + y) * s.w + z] = from_compute<T>(sum);
  }
}

/// Whether all places, those in the padding included, can be counted by 32 bits, which divide several times faster.
bool is_narrow(const ColumnsShape& s, int64_t items) {
  constexpr int64_t kMost = 1 << 30;
  const auto fits = [](int64_t size, int64_t kernel, int64_t places, int64_t stride, int64_t padding,
                       int64_t dilation) {
    return stride < kMost && padding < kMost && dilation < kMost &&
           size + 2 * padding + kernel * dilation + places * stride < kMost;
  };
  const ConvGeometry& g = s.geometry;
  return items < kMost && s.channels * s.h * s.w < kMost && s.channels * s.kernel_h * s.kernel_w < kMost &&
         s.p * s.q < kMost && fits(s.h, s.kernel_h, s.p, g.stride.h, g.padding.h, g.dilation.h) &&
         fits(s.w, s.kernel_w, s.q, g.stride.w, g.padding.w, g.dilation.w);
}

template <class T>
void gather(const char* op, const void* x, void* columns, const ColumnsShape& s) {
  const int64_t items = s.count * s.channels * s.kernel_h * s.kernel_w * s.p * s.q;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(columns);
  if (is_narrow(s, items)) {
    launch(op, gather_columns<T, int32_t>, grid_for(items), from, to, Shape<int32_t>(s, items));
  } else {
    launch(op, gather_columns<T, int64_t>, grid_for(items), from, to, Shape<int64_t>(s, items));
  }
}

template <class T>
void sum(const char* op, const void* columns, void* x, const ColumnsShape& s) {
  const int64_t items = s.count * s.channels * s.h * s.w;
  const T* from = static_cast<const T*>(columns);
  T* to = static_cast<T*>(x);
  if (is_narrow(s, items)) {
    launch(op, sum_columns<T, int32_t>, grid_for(items), from, to, Shape<int32_t>(s, items));
  } else {
    launch(op, sum_columns<T, int64_t>, grid_for(items), from, to, Shape<int64_t>(s, items));
  }
}

}  // namespace

void columns_of(const char* op, DType dtype, const void* x, void* columns, const ColumnsShape& shape) {
  visit_bits(dtype, [&](auto tag) { gather<typename decltype(tag)::type>(op, x, columns, shape); });
}

void image_of(const char* op, DType dtype, const void* columns, void* x, const ColumnsShape& shape) {
  visit_floating(op, dtype, [&](auto tag) { sum<typename decltype(tag)::type>(op, columns, x, shape); });
}

}  // namespace tendril::cuda
