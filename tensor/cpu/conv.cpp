#include <cstring>
#include <optional>
#include <type_traits>

#include "tendril/tensor/cpu/conv_parts.h"
#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/gemm.h"
#include "tendril/tensor/cpu/in_float.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/row_major.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/cpu/visit.h"
#include "tendril/tensor/cpu/winograd.h"
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/threads.h"

/// Convolutions as matrix products (Chellapilla et al., "High performance convolutional neural networks for document
/// processing", 2006). A tile is one or more images of one group; its *columns* matrix has a row for each (channel,
/// kernel row, kernel column) and a column for each output place, and then
///     out = weight columns,    columns = weight^T out,    weight = out columns^T.
/// Small images share a tile, since a product of few columns would read the weight for little; where a kernel of one
/// place leaves nothing to arrange, the image itself is the matrix.
namespace tendril::cpu {
namespace {

constexpr int64_t kColumns = 1024;          // of a tile, about
constexpr int64_t kTileElements = 4 << 20;  // and at most

/// What a convolution is, with sizes of one group.
struct Shape {
  int64_t images, groups;
  int64_t in, h, w;   // channels of x
  int64_t out, p, q;  // channels of the result
  int64_t kernel_h, kernel_w;
  ConvGeometry geometry;

  int64_t plane() const { return h * w; }
  int64_t places() const { return p * q; }
  int64_t depth() const { return in * kernel_h * kernel_w; }
  /// x's planes are the rows of the columns matrix.
  bool pointwise() const {
    return kernel_h == 1 && kernel_w == 1 && geometry.stride == Size2(1) && geometry.padding == Size2(0);
  }
  int64_t images_of_tile() const {
    const int64_t wanted = std::max<int64_t>(1, kColumns / std::max<int64_t>(1, places()));
    const int64_t fitting = std::max<int64_t>(1, kTileElements / std::max<int64_t>(1, depth() * places()));
    return std::max<int64_t>(1, std::min({wanted, fitting, images}));
  }
};

Shape shape_of(const View& x, const View& weight, const View& out, const ConvGeometry& geometry) {
  return {x.sizes[0],      geometry.groups, x.sizes[1] / geometry.groups,
          x.sizes[2],      x.sizes[3],      out.sizes[1] / geometry.groups,
          out.sizes[2],    out.sizes[3],    weight.sizes[2],
          weight.sizes[3], geometry};
}

/// The outputs [begin, end) along one dimension whose input at kernel place k lies inside the image.
struct Inside {
  int64_t begin, end;
};
Inside inside(int64_t outputs, int64_t input, int64_t k, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t first = k * dilation - padding;  // the input of output 0
  const int64_t begin = first >= 0 ? 0 : (-first + stride - 1) / stride;
  const int64_t last = input - 1 - first;
  const int64_t end = last < 0 ? 0 : last / stride + 1;
  return {std::min(begin, outputs), std::max(std::min(begin, outputs), std::min(end, outputs))};
}

/// Between images and their columns matrix.
template <class T>
class Columns {
 public:
  explicit Columns(const Shape& shape) : s_(shape) {}

  /// columns [depth, count places] of `count` images, of which `x` is the first one's group.
  void gather(const T* x, int64_t image_stride, int64_t count, T* columns) const {
    const int64_t width = count * s_.places(), taps = s_.kernel_h * s_.kernel_w;
    parallel_for(s_.depth(), grain_of(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const Tap tap(s_, row % taps);
        for (int64_t n = 0; n < count; ++n) {
          gather_plane(x + n * image_stride + row / taps * s_.plane(), tap, columns + row * width + n * s_.places());
        }
      }
    });
  }

  /// The transpose: x = the sum of what the columns' elements were gathered from. Overwrites x.
  void scatter(const T* columns, int64_t image_stride, int64_t count, T* x) const {
    const int64_t width = count * s_.places(), taps = s_.kernel_h * s_.kernel_w;
    parallel_for(s_.in, grain_of(width * taps), [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        for (int64_t n = 0; n < count; ++n) {
          T* plane = x + n * image_stride + channel * s_.plane();
          std::fill_n(plane, s_.plane(), T(0));
          for (int64_t t = 0; t < taps; ++t) {
            scatter_plane(columns + (channel * taps + t) * width + n * s_.places(), Tap(s_, t), plane);
          }
        }
      }
    });
  }

 private:
  /// One place of the kernel.
  struct Tap {
    Tap(const Shape& s, int64_t place)
        : rows(inside(s.p, s.h, place / s.kernel_w, s.geometry.stride.h, s.geometry.padding.h, s.geometry.dilation.h)),
          columns(
              inside(s.q, s.w, place % s.kernel_w, s.geometry.stride.w, s.geometry.padding.w, s.geometry.dilation.w)),
          offset((place / s.kernel_w * s.geometry.dilation.h - s.geometry.padding.h) * s.w +
                 place % s.kernel_w * s.geometry.dilation.w - s.geometry.padding.w) {}
    Inside rows, columns;
    int64_t offset;  // of the input of output (0, 0), which may lie outside
  };

  void gather_plane(const T* plane, const Tap& tap, T* to) const {
    const int64_t step = s_.geometry.stride.w, down = s_.geometry.stride.h * s_.w;
    if (s_.pointwise()) {
      std::memcpy(to, plane, static_cast<std::size_t>(s_.plane()) * sizeof(T));
      return;
    }
    std::fill_n(to, tap.rows.begin * s_.q, T(0));
    for (int64_t i = tap.rows.begin; i < tap.rows.end; ++i) {
      T* line = to + i * s_.q;
      const int64_t from = tap.offset + i * down;
      std::fill_n(line, tap.columns.begin, T(0));
      if (step == 1) {
        std::copy(plane + from + tap.columns.begin, plane + from + tap.columns.end, line + tap.columns.begin);
      } else {
        for (int64_t j = tap.columns.begin; j < tap.columns.end; ++j) line[j] = plane[from + j * step];
      }
      std::fill(line + tap.columns.end, line + s_.q, T(0));
    }
    std::fill(to + tap.rows.end * s_.q, to + s_.places(), T(0));
  }

  void scatter_plane(const T* from, const Tap& tap, T* plane) const {
    const int64_t step = s_.geometry.stride.w, down = s_.geometry.stride.h * s_.w;
    for (int64_t i = tap.rows.begin; i < tap.rows.end; ++i) {
      const T* line = from + i * s_.q;
      const int64_t to = tap.offset + i * down;
      if (step == 1) {
        T* o = plane + (to + tap.columns.begin);
        const T* v = line + tap.columns.begin;
        const int64_t length = tap.columns.end - tap.columns.begin;
#pragma GCC ivdep
        for (int64_t j = 0; j < length; ++j) o[j] += v[j];
      } else {
        for (int64_t j = tap.columns.begin; j < tap.columns.end; ++j) plane[to + j * step] += line[j];
      }
    }
  }

  const Shape& s_;
};

/// Between `channels` planes of each of `count` images and a matrix [channels, count places].
template <class T>
void join_planes(const T* images, int64_t image_stride, int64_t count, int64_t channels, int64_t places, T* matrix) {
  parallel_for(channels, grain_of(count * places), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t n = 0; n < count; ++n) {
        std::copy_n(images + n * image_stride + c * places, places, matrix + (c * count + n) * places);
      }
    }
  });
}
template <class T>
void part_planes(const T* matrix, int64_t image_stride, int64_t count, int64_t channels, int64_t places, T* images) {
  parallel_for(channels, grain_of(count * places), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      for (int64_t n = 0; n < count; ++n) {
        std::copy_n(matrix + (c * count + n) * places, places, images + n * image_stride + c * places);
      }
    }
  });
}

/// Runs tile(x, weight, out, images) for every tile; pointers to the first image's group, `first` for the first tile of
/// a group.
template <class T, class Tile>
void for_each_tile(const Shape& s, T* x, T* weight, T* out, Tile tile) {
  const int64_t at_once = s.images_of_tile();
  for (int64_t group = 0; group < s.groups; ++group) {
    for (int64_t image = 0; image < s.images; image += at_once) {
      tile(x + (image * s.groups + group) * s.in * s.plane(), weight + group * s.out * s.depth(),
           out + (image * s.groups + group) * s.out * s.places(), std::min(at_once, s.images - image), image == 0);
    }
  }
}

/// The scratch memory of one call, sized for its largest tile.
template <class T>
struct Work {
  explicit Work(const Shape& s)
      : whole_images(s.images_of_tile() == 1),
        direct(whole_images && s.pointwise()),
        columns(direct ? 0 : s.depth() * s.images_of_tile() * s.places()),
        planes(whole_images ? 0 : s.out * s.images_of_tile() * s.places()) {}
  bool whole_images;  // a tile is one image: the result needs no arranging
  bool direct;        // and neither does x
  Scratch<T> columns, planes;
};

template <class T>
void forward(const Shape& s, const View& out_view, const View& x_view, const View& weight_view) {
  const Work<T> work(s);
  const Columns<T> columns(s);
  const int64_t x_step = s.groups * s.in * s.plane(), out_step = s.groups * s.out * s.places();
  for_each_tile(
      s, x_view.as<T>(), weight_view.as<T>(), out_view.as<T>(), [&](T* x, T* weight, T* out, int64_t count, bool) {
        const int64_t width = count * s.places();
        if (!work.direct) columns.gather(x, x_step, count, work.columns.data());
        const T* matrix = work.direct ? x : work.columns.data();
        T* result = work.whole_images ? out : work.planes.data();
        multiply(out_view.dtype, {s.out, width, s.depth(), weight, s.depth(), 1, matrix, width, 1, result, width, 1},
                 "conv2d");
        if (!work.whole_images) part_planes(result, out_step, count, s.out, s.places(), out);
      });
}

template <class T>
void data(const Shape& s, const View& x_view, const View& out_view, const View& weight_view) {
  const Work<T> work(s);
  const Columns<T> columns(s);
  const int64_t x_step = s.groups * s.in * s.plane(), out_step = s.groups * s.out * s.places();
  for_each_tile(
      s, x_view.as<T>(), weight_view.as<T>(), out_view.as<T>(), [&](T* x, T* weight, T* out, int64_t count, bool) {
        const int64_t width = count * s.places();
        if (!work.whole_images) {
          join_planes(out, out_step, count, s.out, s.places(), work.planes.data());
        }
        const T* given = work.whole_images ? out : work.planes.data();
        T* matrix = work.direct ? x : work.columns.data();
        multiply(x_view.dtype, {s.depth(), width, s.out, weight, 1, s.depth(), given, width, 1, matrix, width, 1},
                 "conv2d_data");
        if (!work.direct) columns.scatter(matrix, x_step, count, x);
      });
}

template <class T>
void filter(const Shape& s, const View& weight_view, const View& x_view, const View& out_view) {
  if (s.images == 0) std::fill_n(weight_view.as<T>(), weight_view.numel, T(0));
  const Work<T> work(s);
  const Columns<T> columns(s);
  const int64_t x_step = s.groups * s.in * s.plane(), out_step = s.groups * s.out * s.places();
  for_each_tile(s, x_view.as<T>(), weight_view.as<T>(), out_view.as<T>(),
                [&](T* x, T* weight, T* out, int64_t count, bool first) {
                  const int64_t width = count * s.places();
                  if (!work.direct) columns.gather(x, x_step, count, work.columns.data());
                  if (!work.whole_images) join_planes(out, out_step, count, s.out, s.places(), work.planes.data());
                  const T* matrix = work.direct ? x : work.columns.data();
                  const T* given = work.whole_images ? out : work.planes.data();
                  multiply(weight_view.dtype,
                           {s.out, s.depth(), width, given, width, 1, matrix, 1, width, weight, s.depth(), 1, !first},
                           "conv2d_filter");
                });
}

/// Adds what each channel is shifted by (null: nothing), and clips at 0 from below if `relu`; NaN stays.
template <class T>
void add_and_clip(const View& out, const T* shift, bool relu) {
  const bool pixels = !out.contiguous;  // rows of all channels, or of one
  const int64_t channels = out.sizes[1], length = pixels ? channels : out.sizes[2] * out.sizes[3];
  const auto clipped = [relu](T y) { return relu && y < T(0) ? T(0) : y; };
  parallel_for(out.numel / std::max<int64_t>(length, 1), grain_of(length), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* const row = out.as<T>() + r * length;
      if (pixels && shift) {
        for (int64_t i = 0; i < length; ++i) row[i] = clipped(row[i] + shift[i]);
      } else {
        const T by = shift ? shift[r % channels] : T(0);
        for (int64_t i = 0; i < length; ++i) row[i] = clipped(row[i] + by);
      }
    }
  });
}

}  // namespace

// Without oneDNN operands in channels-last order are made row-major, and results put back.
void conv2d(const View& out, const View& x, const View& weight, const ConvGeometry& geometry) {
  conv2d_relu(out, x, weight, nullptr, false, geometry, nullptr);
}
void conv2d_relu(const View& out, const View& x, const View& weight, const View* bias, bool relu,
                 const ConvGeometry& geometry, detail::PreparedForms* prepared) {
  if (is_half(x.dtype)) {
    const InFloat result(out, InFloat::Use::write);
    const MaybeInFloat shift(bias);
    conv2d_relu(result, InFloat(x), InFloat(weight), shift.view(), relu, geometry, nullptr);
    return result.write_back();
  }
  if (!onednn::has_winograd() && winograd::conv2d(out, x, weight, bias, relu, geometry, prepared)) return;
  bool add = false;
  if (!convolve_in_parts(onednn::Map::result, x, weight, out, geometry, bias, prepared)) {
    const Shape s = shape_of(x, weight, out, geometry);
    const RowMajor rows_of_x(x), rows_of_weight(weight), result(out, InFloat::Use::write);
    visit_float_or_double(out.dtype, "conv2d",
                          [&](auto t) { forward<decltype(t)>(s, result, rows_of_x, rows_of_weight); });
    result.write_back();
    add = bias;
  }
  if (!add && !relu) return;  // (oneDNN has a relu, too, but it makes NaN 0)
  visit_float_or_double(out.dtype, "conv2d", [&](auto zero) {
    using T = decltype(zero);
    add_and_clip<T>(out, add ? bias->as<const T>() : nullptr, relu);
  });
}
void conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry,
                 detail::PreparedForms* prepared) {
  if (is_half(x.dtype)) {
    const InFloat result(x, InFloat::Use::write);
    conv2d_data(result, InFloat(out), InFloat(weight), geometry, nullptr);
    return result.write_back();
  }
  if (!onednn::has_winograd() && winograd::conv2d_data(x, out, weight, geometry, prepared)) return;
  if (convolve_in_parts(onednn::Map::data, x, weight, out, geometry, nullptr, prepared)) return;
  const Shape s = shape_of(x, weight, out, geometry);
  const RowMajor rows_of_out(out), rows_of_weight(weight), result(x, InFloat::Use::write);
  visit_float_or_double(x.dtype, "conv2d_data",
                        [&](auto t) { data<decltype(t)>(s, result, rows_of_out, rows_of_weight); });
  result.write_back();
}
void conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry) {
  if (is_half(x.dtype)) {
    const InFloat result(weight, InFloat::Use::write);
    conv2d_filter(result, InFloat(x), InFloat(out), geometry);
    return result.write_back();
  }
  if (!onednn::has_winograd() && winograd::conv2d_filter(weight, x, out, geometry)) return;
  {
    std::optional<ThreadLimit> alone;  // parts of the images are added up
    if (deterministic()) alone.emplace(1);
    if (convolve_in_parts(onednn::Map::filter, x, weight, out, geometry)) return;
  }
  const Shape s = shape_of(x, weight, out, geometry);
  const RowMajor rows_of_x(x), rows_of_out(out), result(weight, InFloat::Use::write);
  visit_float_or_double(weight.dtype, "conv2d_filter",
                        [&](auto t) { filter<decltype(t)>(s, result, rows_of_x, rows_of_out); });
  result.write_back();
}

}  // namespace tendril::cpu
