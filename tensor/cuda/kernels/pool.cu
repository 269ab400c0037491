#include <algorithm>
#include <limits>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/element.cuh"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Pooling: every element of the result is gathered by one thread or one warp, so that results are the same each time.
/// The half types are compared and added up in float32, and rounded once.
namespace tendril::cuda {
namespace {

/// f(TypeTag<T>, Index) for floating T; Index is what counts elements.
template <class F>
void floating(const View& out, const View& x, const char* op, F f) {
  visit_floating(op, x.dtype, [&](auto tag) {
    std::max(out.numel, x.numel) < std::numeric_limits<int32_t>::max() ? f(tag, uint32_t{}) : f(tag, int64_t{});
  });
}

int narrow(int64_t size, const char* op) {
  TENDRIL_CHECK_AS(ShapeError, size <= std::numeric_limits<int>::max() / 2, op, ": an image's side, window or step of ",
                   size, " is more than the cuda kernel can count");
  return static_cast<int>(size);
}

void check_sides(const View& images, const char* op) {
  narrow(images.sizes[2], op);
  narrow(images.sizes[3], op);
}

/// Where the elements of images [n, c, h, w] lie that are contiguous or in channels-last order, both in the order in
/// which they lie: a channel of an image starts at `start`, its pixels are `step` apart.
struct Plane {
  int64_t start, step;
};
template <class Index>
struct Images {
  Index channels;  ///< 1 where the order is the contiguous one: a plane is an image then
  Index rows, columns;

  explicit Images(const View& x)
      : channels(x.contiguous ? 1 : static_cast<Index>(x.sizes[1])),
        rows(static_cast<Index>(x.sizes[2])),
        columns(static_cast<Index>(x.sizes[3])) {}

  /// Element i, in the order in which they lie, is at this place of `plane`.
  struct Place {
    Index plane;  ///< a number; `of` says where it lies
    int row, column;
  };
  __device__ Place place(Index i) const {
    if (channels == 1) {
      const Index row = i / columns, plane = row / rows;
      return {plane, static_cast<int>(row - plane * rows), static_cast<int>(i - row * columns)};
    }
    const Index pixel = i / channels, row = pixel / columns, image = row / rows;
    return {image * channels + (i - pixel * channels), static_cast<int>(row - image * rows),
            static_cast<int>(pixel - row * columns)};
  }
  __device__ Plane of(Index plane) const {
    const int64_t size = static_cast<int64_t>(rows) * static_cast<int64_t>(columns);
    if (channels == 1) return {static_cast<int64_t>(plane) * size, 1};
    const Index image = plane / channels;
    return {static_cast<int64_t>(image) * size * static_cast<int64_t>(channels) +
                static_cast<int64_t>(plane - image * channels),
            static_cast<int64_t>(channels)};
  }
};

// ---- max

struct Side {
  int size, count, kernel, stride, padding, dilation;
};
Side side(int64_t size, int64_t count, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  constexpr const char* op = "max_pool2d";
  return {narrow(size, op),   narrow(count, op),   narrow(kernel, op),
          narrow(stride, op), narrow(padding, op), narrow(dilation, op)};
}

/// Of images x and the results of pooling them.
struct Sides {
  Side h, w;
  Sides(const View& x, const View& out, const PoolGeometry& g)
      : h(side(x.sizes[2], out.sizes[2], g.kernel.h, g.stride.h, g.padding.h, g.dilation.h)),
        w(side(x.sizes[3], out.sizes[3], g.kernel.w, g.stride.w, g.padding.w, g.dilation.w)) {}
};

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
__global__ void __launch_bounds__(kGridThreads) max_pool(T* out, int64_t* indices, const T* x, Images<Index> small,
                                                         Images<Index> large, Side h, Side w, Index count) {
  using C = Compute<T>;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto at = small.place(i);
    const Span down = inside(h, at.row), across = inside(w, at.column);
    const Plane plane = large.of(at.plane);
    const T* image = x + plane.start;
    int64_t best = static_cast<int64_t>(down.first) * w.size + across.first;
    C largest = -std::numeric_limits<C>::infinity();
    for (int a = down.first; a < down.end; a += h.dilation) {
      const int64_t start = static_cast<int64_t>(a) * w.size;
      for (int b = across.first; b < across.end; b += w.dilation) {
        const C value = to_compute(image[(start + b) * plane.step]);
        if (value > largest || value != value) {
          largest = value;
          best = start + b;
        }
      }
    }
    out[i] = from_compute<T>(largest);
    indices[i] = best;
  }
}

/// The windows that see pixel i: first, first + 1, ... below end.
__device__ inline Span seers(const Side& s, int i) {
  const int64_t reach = static_cast<int64_t>(s.kernel - 1) * s.dilation;
  const int last = i + s.padding, end = last / s.stride + 1;
  const int first = last <= reach ? 0 : (last - static_cast<int>(reach) + s.stride - 1) / s.stride;
  return {first, end < s.count ? end : s.count};
}

/// What each pixel was the largest of. (Of a dilated window that steps over it, it is not.)
template <class T, class Index>
__global__ void __launch_bounds__(kGridThreads)
    max_pool_gradient(T* dx, const T* g, const int64_t* indices, Images<Index> small, Images<Index> large, Side h,
                      Side w, Index count) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto at = large.place(i);
    const Span down = seers(h, at.row), across = seers(w, at.column);
    const Plane plane = small.of(at.plane);
    const int64_t me = static_cast<int64_t>(at.row) * w.size + at.column;
    Compute<T> sum = 0;
    for (int a = down.first; a < down.end; ++a) {
      for (int b = across.first; b < across.end; ++b) {
        const int64_t window = plane.start + (static_cast<int64_t>(a) * w.count + b) * plane.step;
        if (indices[window] == me) sum += to_compute(g[window]);
      }
    }
    dx[i] = from_compute<T>(sum);
  }
}

// ---- mean
// A PoolAxis is in the host's memory and may be gone before a kernel runs: its numbers travel as kernel arguments, a
// piece a launch, into scratch memory of the device.

/// Where a window begins and ends, or, for the transpose, which windows see a pixel; and the window's factor, in what
/// is computed in.
template <class C>
struct Window {
  int begin, end;
  C scale;
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
    mean_pool(T* out, const T* x, const Window<Compute<T>>* down, const Window<Compute<T>>* across, Images<Index> small,
              Images<Index> large, Index count) {
  using C = Compute<T>;
  const Index thread = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x / Lanes;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  for (Index i = thread / Lanes; i < count; i += step) {  // the same i for all lanes of a warp
    const auto at = small.place(i);
    const Window<C> h = down[at.row], w = across[at.column];
    const Plane plane = large.of(at.plane);
    const T* image = x + plane.start;
    const auto width = static_cast<int64_t>(large.columns);
    C sum = 0;
    const int wide = w.end - w.begin;
    if (Lanes > 1 && wide < Lanes) {  // lanes go over the window's elements as over one row
      const int64_t area = static_cast<int64_t>(h.end - h.begin) * wide;
      for (int64_t k = lane; k < area; k += Lanes) {
        const int64_t a = k / wide;
        sum += to_compute(image[((h.begin + a) * width + w.begin + (k - a * wide)) * plane.step]);
      }
    } else {
      for (int a = h.begin; a < h.end; ++a) {
        const int64_t row = static_cast<int64_t>(a) * width;
        C part = 0;
        for (int b = w.begin + lane; b < w.end; b += Lanes) part += to_compute(image[(row + b) * plane.step]);
        sum += part;
      }
    }
    if constexpr (Lanes > 1) {
      for (int distance = Lanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, distance);
      }
    }
    if (lane == 0) out[i] = from_compute<T>(sum * (h.scale * w.scale));
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(kGridThreads)
    mean_pool_transpose(T* x, const T* out, const Window<Compute<T>>* down_seers,
                        const Window<Compute<T>>* across_seers, const Window<Compute<T>>* down,
                        const Window<Compute<T>>* across, Images<Index> small, Images<Index> large, Index count) {
  using C = Compute<T>;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto at = large.place(i);
    const Window<C> h = down_seers[at.row], w = across_seers[at.column];
    const Plane plane = small.of(at.plane);
    C sum = 0;
    for (int a = h.begin; a < h.end; ++a) {
      const int64_t row = plane.start + static_cast<int64_t>(a) * static_cast<int64_t>(small.columns) * plane.step;
      C part = 0;
      for (int b = w.begin; b < w.end; ++b) part += to_compute(out[row + b * plane.step]) * across[b].scale;
      sum += part * down[a].scale;
    }
    x[i] = from_compute<T>(sum);
  }
}

/// Windows of at least this many elements are summed by a warp.
constexpr int64_t kLargeWindow = 32;

}  // namespace

void max_pool2d(const View& out, const View& indices, const View& x, const PoolGeometry& g) {
  if (out.numel == 0) return;
  floating(out, x, "max_pool2d", [&](auto tag, auto index) {
    using T = typename decltype(tag)::type;
    using Index = decltype(index);
    const Sides sides(x, out, g);
    launch("max_pool2d", max_pool<T, Index>, grid_for(out.numel), out.as<T>(), indices.as<int64_t>(), x.as<const T>(),
           Images<Index>(out), Images<Index>(x), sides.h, sides.w, static_cast<Index>(out.numel));
  });
}

void max_pool2d_backward(const View& dx, const View& g, const View& indices, const PoolGeometry& geometry) {
  if (dx.numel == 0) return;
  floating(g, dx, "max_pool2d_backward", [&](auto tag, auto index) {
    using T = typename decltype(tag)::type;
    using Index = decltype(index);
    const Sides sides(dx, g, geometry);
    launch("max_pool2d_backward", max_pool_gradient<T, Index>, grid_for(dx.numel), dx.as<T>(), g.as<const T>(),
           indices.as<const int64_t>(), Images<Index>(g), Images<Index>(dx), sides.h, sides.w,
           static_cast<Index>(dx.numel));
  });
}

void mean_pool2d(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w) {
  constexpr const char* op = "mean_pool2d";
  if (out.numel == 0) return;
  for (const View* view : {&x, &out}) check_sides(*view, op);
  const int64_t rows = out.sizes[2], columns = out.sizes[3];
  const bool large = widest(h, rows) * widest(w, columns) >= kLargeWindow;
  floating(out, x, op, [&](auto tag, auto index) {
    using T = typename decltype(tag)::type;
    using Index = decltype(index);
    using C = Compute<T>;
    const Workspace tables(static_cast<std::size_t>(rows + columns) * sizeof(Window<C>));
    auto* down = tables.as<Window<C>>();
    auto* across = down + rows;
    Upload<C> upload(op, down);
    upload.add(rows, windows_of<C>(h));
    upload.add(columns, windows_of<C>(w));
    upload.send();
    const auto kernel = large ? mean_pool<T, Index, kWarp> : mean_pool<T, Index, 1>;
    launch(op, kernel, grid_for(out.numel * (large ? kWarp : 1)), out.as<T>(), x.as<const T>(), down, across,
           Images<Index>(out), Images<Index>(x), static_cast<Index>(out.numel));
  });
}

void mean_pool2d_transpose(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w) {
  constexpr const char* op = "mean_pool2d_transpose";
  if (x.numel == 0) return;
  for (const View* view : {&x, &out}) check_sides(*view, op);
  const int64_t height = x.sizes[2], width = x.sizes[3], rows = out.sizes[2], columns = out.sizes[3];
  floating(out, x, op, [&](auto tag, auto index) {
    using T = typename decltype(tag)::type;
    using Index = decltype(index);
    using C = Compute<T>;
    const Workspace tables(static_cast<std::size_t>(height + width + rows + columns) * sizeof(Window<C>));
    auto* down_seers = tables.as<Window<C>>();
    auto *across_seers = down_seers + height, *down = across_seers + width, *across = down + rows;
    Upload<C> upload(op, down_seers);
    upload.add(height, seers_of<C>(h, rows));
    upload.add(width, seers_of<C>(w, columns));
    upload.add(rows, windows_of<C>(h));
    upload.add(columns, windows_of<C>(w));
    upload.send();
    launch(op, mean_pool_transpose<T, Index>, grid_for(x.numel), x.as<T>(), out.as<const T>(), down_seers, across_seers,
           down, across, Images<Index>(out), Images<Index>(x), static_cast<Index>(x.numel));
  });
}

}  // namespace tendril::cuda
