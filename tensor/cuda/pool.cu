#include <algorithm>
#include <limits>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernel.cuh"
#include "tendril/tensor/cuda/workspace.h"

/// Pooling: every element of the result is gathered by one thread or one warp, so that results are the same each time.
namespace tendril::cuda {
namespace {

/// f(T, Index): float or double, and what counts elements.
template <class F>
void floating(const View& out, const View& x, const char* op, F f) {
  const bool small = std::max(out.numel, x.numel) < std::numeric_limits<int32_t>::max();
  if (x.dtype == kFloat32) return small ? f(float{}, uint32_t{}) : f(float{}, int64_t{});
  TENDRIL_CHECK_AS(DTypeError, x.dtype == kFloat64, op, ": no cuda kernel for ", x.dtype);
  return small ? f(double{}, uint32_t{}) : f(double{}, int64_t{});
}

int narrow(int64_t size, const char* op) {
  TENDRIL_CHECK_AS(ShapeError, size <= std::numeric_limits<int>::max() / 2, op, ": an image's side, window or step of ",
                   size, " is more than the cuda kernel can count");
  return static_cast<int>(size);
}

// ---- max

struct Side {
  int size, count, kernel, stride, padding, dilation;
};
Side side(int64_t size, int64_t count, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  constexpr const char* op = "max_pool2d";
  return {narrow(size, op),   narrow(count, op),   narrow(kernel, op),
          narrow(stride, op), narrow(padding, op), narrow(dilation, op)};
}

/// The places of window i inside of the image: first, first + dilation, ... below end.
struct Span {
  int first, end;
};
__device__ inline Span inside(const Side& s, int i) {
  const int64_t start = static_cast<int64_t>(i) * s.stride - s.padding;
  const int64_t end = start + static_cast<int64_t>(s.kernel - 1) * s.dilation + 1;
  const int64_t first = start >= 0 ? start : start + (-start + s.dilation - 1) / s.dilation * s.dilation;
  return {static_cast<int>(first), static_cast<int>(end < s.size ? end : s.size)};
}

template <class T, class Index>
__global__ void __launch_bounds__(kGridThreads)
    max_pool(T* out, int64_t* indices, const T* x, Side h, Side w, Index count) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = i / static_cast<Index>(w.count), plane = row / static_cast<Index>(h.count);
    const Span down = inside(h, static_cast<int>(row - plane * h.count));
    const Span across = inside(w, static_cast<int>(i - row * w.count));
    const T* image = x + static_cast<int64_t>(plane) * h.size * w.size;
    int64_t best = static_cast<int64_t>(down.first) * w.size + across.first;
    T largest = -std::numeric_limits<T>::infinity();
    for (int a = down.first; a < down.end; a += h.dilation) {
      const int64_t start = static_cast<int64_t>(a) * w.size;
      for (int b = across.first; b < across.end; b += w.dilation) {
        const T value = image[start + b];
        if (value > largest || value != value) {
          largest = value;
          best = start + b;
        }
      }
    }
    out[i] = largest;
    indices[i] = best;
  }
}

// ---- mean
// A PoolAxis is in the host's memory and may be gone before a kernel runs: its numbers travel as kernel arguments, a
// piece a launch, into scratch memory of the device.

/// Where a window begins and ends, or, for the transpose, which windows see a pixel; and the window's factor.
template <class T>
struct Window {
  int begin, end;
  T scale;
};

template <class T>
struct Piece {
  static constexpr int kMost = 160;  // kernel arguments have 4 KiB
  Window<T> windows[kMost];
};
template <class T>
__global__ void __launch_bounds__(Piece<T>::kMost) store_piece(Window<T>* to, Piece<T> piece, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) to[i] = piece.windows[i];
}

/// Writes windows to `to` on the device, one after the other.
template <class T>
class Upload {
 public:
  Upload(const char* op, Window<T>* to) : op_(op), to_(to) {}

  void add(const Window<T>& window) {
    piece_.windows[count_++] = window;
    if (count_ == Piece<T>::kMost) send();
  }
  template <class F>
  void add(int64_t count, F window_of) {
    for (int64_t i = 0; i < count; ++i) add(window_of(i));
  }
  void send() {
    if (count_ == 0) return;
    launch(op_, store_piece<T>, {dim3(1), dim3(Piece<T>::kMost)}, to_, piece_, count_);
    to_ += count_;
    count_ = 0;
  }

 private:
  const char* op_;
  Window<T>* to_;
  int count_ = 0;
  Piece<T> piece_{};
};

template <class T>
auto windows_of(const PoolAxis& axis) {
  return [&axis](int64_t i) {
    return Window<T>{static_cast<int>(axis.begin[i]), static_cast<int>(axis.end[i]), static_cast<T>(axis.scale[i])};
  };
}

/// Which of `count` windows see pixel i, for i = 0, 1, ...: a range, as windows move on.
template <class T>
auto seers_of(const PoolAxis& axis, int64_t count) {
  return [&axis, count, first = int64_t{0}, last = int64_t{0}](int64_t i) mutable {
    while (first < count && axis.end[first] <= i) ++first;
    while (last < count && axis.begin[last] <= i) ++last;
    return Window<T>{static_cast<int>(first), static_cast<int>(std::max(first, last)), T(0)};
  };
}

int64_t widest(const PoolAxis& axis, int64_t count) {
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, axis.end[i] - axis.begin[i]);
  return most;
}

/// `Lanes` threads (1 or a warp's) sum each window. A row's sum is added to that of the rows before it, which keeps
/// rounding errors of large windows small.
template <class T, class Index, int Lanes>
__global__ void __launch_bounds__(kGridThreads)
    mean_pool(T* out, const T* x, const Window<T>* down, const Window<T>* across, int height, int width, int rows,
              int columns, Index count) {
  const Index thread = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x / Lanes;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  for (Index i = thread / Lanes; i < count; i += step) {  // the same i for all lanes of a warp
    const Index row = i / static_cast<Index>(columns), plane = row / static_cast<Index>(rows);
    const Window<T> h = down[row - plane * rows], w = across[i - row * columns];
    const T* image = x + static_cast<int64_t>(plane) * height * width;
    T sum = 0;
    const int wide = w.end - w.begin;
    if (Lanes > 1 && wide < Lanes) {  // lanes go over the window's elements as over one row
      const int64_t area = static_cast<int64_t>(h.end - h.begin) * wide;
      for (int64_t k = lane; k < area; k += Lanes) {
        const int64_t a = k / wide;
        sum += image[(h.begin + a) * width + w.begin + (k - a * wide)];
      }
    } else {
      for (int a = h.begin; a < h.end; ++a) {
        const T* from = image + static_cast<int64_t>(a) * width;
        T part = 0;
        for (int b = w.begin + lane; b < w.end; b += Lanes) part += from[b];
        sum += part;
      }
    }
    if constexpr (Lanes > 1) {
      for (int distance = Lanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, distance);
      }
    }
    if (lane == 0) out[i] = sum * (h.scale * w.scale);
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(kGridThreads)
    mean_pool_transpose(T* x, const T* out, const Window<T>* down_seers, const Window<T>* across_seers,
                        const Window<T>* down, const Window<T>* across, int height, int width, int rows, int columns,
                        Index count) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index row = i / static_cast<Index>(width), plane = row / static_cast<Index>(height);
    const Window<T> h = down_seers[row - plane * height], w = across_seers[i - row * width];
    const T* from = out + static_cast<int64_t>(plane) * rows * columns;
    T sum = 0;
    for (int a = h.begin; a < h.end; ++a) {
      T part = 0;
      for (int b = w.begin; b < w.end; ++b) part += from[static_cast<int64_t>(a) * columns + b] * across[b].scale;
      sum += part * down[a].scale;
    }
    x[i] = sum;
  }
}

/// Windows of at least this many elements are summed by a warp.
constexpr int64_t kLargeWindow = 32;

}  // namespace

void max_pool2d(const View& out, const View& indices, const View& x, const PoolGeometry& g) {
  if (out.numel == 0) return;
  floating(out, x, "max_pool2d", [&](auto t, auto index) {
    using T = decltype(t);
    using Index = decltype(index);
    launch("max_pool2d", max_pool<T, Index>, grid_for(out.numel), out.as<T>(), indices.as<int64_t>(), x.as<const T>(),
           side(x.sizes[2], out.sizes[2], g.kernel.h, g.stride.h, g.padding.h, g.dilation.h),
           side(x.sizes[3], out.sizes[3], g.kernel.w, g.stride.w, g.padding.w, g.dilation.w),
           static_cast<Index>(out.numel));
  });
}

void mean_pool2d(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w) {
  constexpr const char* op = "mean_pool2d";
  if (out.numel == 0) return;
  const int height = narrow(x.sizes[2], op), width = narrow(x.sizes[3], op);
  const int rows = narrow(out.sizes[2], op), columns = narrow(out.sizes[3], op);
  const bool large = widest(h, rows) * widest(w, columns) >= kLargeWindow;
  floating(out, x, op, [&](auto t, auto index) {
    using T = decltype(t);
    using Index = decltype(index);
    const Workspace tables(static_cast<std::size_t>(out.sizes[2] + out.sizes[3]) * sizeof(Window<T>));
    auto* down = tables.as<Window<T>>();
    auto* across = down + rows;
    Upload<T> upload(op, down);
    upload.add(rows, windows_of<T>(h));
    upload.add(columns, windows_of<T>(w));
    upload.send();
    const auto kernel = large ? mean_pool<T, Index, kWarp> : mean_pool<T, Index, 1>;
    launch(op, kernel, grid_for(out.numel * (large ? kWarp : 1)), out.as<T>(), x.as<const T>(), down, across, height,
           width, rows, columns, static_cast<Index>(out.numel));
  });
}

void mean_pool2d_transpose(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w) {
  constexpr const char* op = "mean_pool2d_transpose";
  if (x.numel == 0) return;
  const int height = narrow(x.sizes[2], op), width = narrow(x.sizes[3], op);
  const int rows = narrow(out.sizes[2], op), columns = narrow(out.sizes[3], op);
  floating(out, x, op, [&](auto t, auto index) {
    using T = decltype(t);
    using Index = decltype(index);
    const Workspace tables(static_cast<std::size_t>(x.sizes[2] + x.sizes[3] + out.sizes[2] + out.sizes[3]) *
                           sizeof(Window<T>));
    auto* down_seers = tables.as<Window<T>>();
    auto *across_seers = down_seers + height, *down = across_seers + width, *across = down + rows;
    Upload<T> upload(op, down_seers);
    upload.add(height, seers_of<T>(h, rows));
    upload.add(width, seers_of<T>(w, columns));
    upload.add(rows, windows_of<T>(h));
    upload.add(columns, windows_of<T>(w));
    upload.send();
    launch(op, mean_pool_transpose<T, Index>, grid_for(x.numel), x.as<T>(), out.as<const T>(), down_seers, across_seers,
           down, across, height, width, rows, columns, static_cast<Index>(x.numel));
  });
}

}  // namespace tendril::cuda
