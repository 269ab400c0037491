#include <algorithm>

#include "tendril/tensor/cuda/cublas/blas.h"
#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/conv.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// The images of one group and as many of them as fit the scratch memory are done at once. With N of them, either the
/// columns of each image are a matrix [depth, places] of a batch of N, which gives results where they belong:
///     out[n] = weight columns[n],    columns[n] = weight^T out[n];
/// or, for the weight's gradient, a sum over all images, they are joined to one matrix [depth, N places]:
///     weight = out columns^T.
namespace tendril::cuda {
namespace {

/// A matrix or a batch of matrices over somebody's memory.
struct Matrices {
  int64_t sizes[3], strides[3];
  View view;

  Matrices(void* data, DType dtype, int64_t batch, int64_t batch_stride, int64_t rows, int64_t row_stride,
           int64_t columns, int64_t column_stride = 1)
      : sizes{batch, rows, columns}, strides{batch_stride, row_stride, column_stride}, view{data,
                                                                                            sizes,
                                                                                            strides,
                                                                                            batch * rows * columns,
                                                                                            3,
                                                                                            dtype,
                                                                                            false} {}
  Matrices(const Matrices&) = delete;
  Matrices& operator=(const Matrices&) = delete;
};

class Products {
 public:
  explicit Products(const Conv& conv)
      : conv_(conv),
        op_(name_of(conv.map)),
        dtype_(conv.x.dtype),
        tf32_(convolution_tf32()),
        images_(conv.x.sizes[0]),
        groups_(conv.geometry.groups),
        in_(conv.weight.sizes[1]),
        out_(conv.weight.sizes[0] / groups_),
        plane_(conv.x.sizes[2] * conv.x.sizes[3]),
        places_(conv.out.sizes[2] * conv.out.sizes[3]),
        depth_(in_ * conv.weight.sizes[2] * conv.weight.sizes[3]) {}

  void run(int64_t scratch_bytes) const {
    const int64_t element = static_cast<int64_t>(size_of(dtype_));
    const int64_t fitting = scratch_bytes / std::max<int64_t>(1, depth_ * places_ * element);
    const int64_t at_once = std::clamp<int64_t>(fitting, 1, images_);
    for (int64_t group = 0; group < groups_; ++group) {
      for (int64_t first = 0; first < images_; first += at_once) {
        const int64_t count = std::min(at_once, images_ - first);
        char* x = conv_.x.as<char>() + (first * groups_ + group) * in_ * plane_ * element;
        char* out = conv_.out.as<char>() + (first * groups_ + group) * out_ * places_ * element;
        char* weight = conv_.weight.as<char>() + group * out_ * depth_ * element;
        switch (conv_.map) {
          case ConvMap::out:
            forward(x, weight, out, count);
            break;
          case ConvMap::data:
            data(x, weight, out, count);
            break;
          case ConvMap::filter:
            filter(x, weight, out, count, first > 0);
            break;
        }
      }
    }
  }

 private:
  int64_t x_stride() const { return groups_ * in_ * plane_; }
  int64_t out_stride() const { return groups_ * out_ * places_; }
  std::size_t bytes(int64_t elements) const { return static_cast<std::size_t>(elements) * size_of(dtype_); }

  /// x's planes are the rows of the columns.
  bool is_direct() const {
    return conv_.weight.sizes[2] == 1 && conv_.weight.sizes[3] == 1 && conv_.geometry.stride == Size2(1) &&
           conv_.geometry.padding == Size2(0);
  }
  ColumnsShape columns_shape(int64_t count, int64_t row, int64_t image) const {
    return {count,
            x_stride(),
            in_,
            conv_.x.sizes[2],
            conv_.x.sizes[3],
            conv_.weight.sizes[2],
            conv_.weight.sizes[3],
            conv_.out.sizes[2],
            conv_.out.sizes[3],
            row,
            image,
            conv_.geometry};
  }

  void forward(void* x, void* weight, void* out, int64_t count) const {
    const Matrices of_weight(weight, dtype_, count, 0, out_, depth_, depth_);
    const Matrices of_out(out, dtype_, count, out_stride(), out_, places_, places_);
    if (is_direct()) {
      const Matrices planes(x, dtype_, count, x_stride(), depth_, places_, places_);
      return multiply(op_, of_out.view, of_weight.view, planes.view, tf32_);
    }
    const Workspace columns(bytes(count * depth_ * places_));
    columns_of(op_, dtype_, x, columns.data(), columns_shape(count, places_, depth_ * places_));
    const Matrices matrix(columns.data(), dtype_, count, depth_ * places_, depth_, places_, places_);
    multiply(op_, of_out.view, of_weight.view, matrix.view, tf32_);
  }

  void data(void* x, void* weight, void* out, int64_t count) const {
    const Matrices transposed(weight, dtype_, count, 0, depth_, 1, out_, depth_);
    const Matrices of_out(out, dtype_, count, out_stride(), out_, places_, places_);
    if (is_direct()) {
      const Matrices planes(x, dtype_, count, x_stride(), depth_, places_, places_);
      return multiply(op_, planes.view, transposed.view, of_out.view, tf32_);
    }
    const Workspace columns(bytes(count * depth_ * places_));
    const Matrices matrix(columns.data(), dtype_, count, depth_ * places_, depth_, places_, places_);
    multiply(op_, matrix.view, transposed.view, of_out.view, tf32_);
    image_of(op_, dtype_, columns.data(), x, columns_shape(count, places_, depth_ * places_));
  }

  void filter(void* x, void* weight, void* out, int64_t count, bool accumulate) const {
    const int64_t width = count * places_;
    const Workspace columns(bytes(depth_ * width));
    columns_of(op_, dtype_, x, columns.data(), columns_shape(count, width, places_));
    const Matrices transposed(columns.data(), dtype_, 1, 0, width, 1, depth_, width);
    const Matrices of_weight(weight, dtype_, 1, 0, out_, depth_, depth_);
    if (count == 1) {
      const Matrices of_out(out, dtype_, 1, 0, out_, places_, places_);
      return multiply(op_, of_weight.view, of_out.view, transposed.view, tf32_, accumulate);
    }
    const Workspace joined(bytes(out_ * width));
    const Matrices from(out, dtype_, out_, places_, count, out_stride(), places_);
    const Matrices to(joined.data(), dtype_, out_, width, count, places_, places_);
    require(table.copy, op_, table)(to.view, from.view);
    const Matrices of_out(joined.data(), dtype_, 1, 0, out_, width, width);
    multiply(op_, of_weight.view, of_out.view, transposed.view, tf32_, accumulate);
  }

  const Conv& conv_;
  const char* op_;
  DType dtype_;
  bool tf32_;
  int64_t images_, groups_, in_, out_;  // channels of one group
  int64_t plane_, places_, depth_;
};

}  // namespace

void convolve_by_products(const Conv& conv, int64_t scratch_bytes) { Products(conv).run(scratch_bytes); }

}  // namespace tendril::cuda
