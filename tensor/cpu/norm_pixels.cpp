#include "tendril/tensor/cpu/norm_pixels.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tendril/tensor/cpu/in_float.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/numbers.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/cpu/visit.h"

/// Pixels are cut into blocks, whatever the number of threads; sums of blocks are added up in their order. The passes
/// over memory are those of norm.cpp, but that a channel does not stay in a cache from one to the next.
namespace tendril::cpu {
namespace {

/// The pixels of images [n, c, s] and how they are shared among threads.
struct Blocks {
  int64_t channels, pixels, of_block, count;

  explicit Blocks(const View& x)
      : channels(x.sizes[1]),
        pixels(x.sizes[0] * x.sizes[2]),
        of_block(std::clamp<int64_t>((int64_t{1} << 16) / channels, 64, 1024)),
        count((pixels + of_block - 1) / of_block) {}

  /// body(block, offset of its first element, pixels) for each.
  template <class Body>
  void share(const Body& body) const {
    parallel_for(count, grain_of(of_block * channels), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        body(b, b * of_block * channels, std::min(of_block, pixels - b * of_block));
      }
    });
  }
  int64_t pixels_of(int64_t block) const { return std::min(of_block, pixels - block * of_block); }
};

/// Two numbers for each channel of each block, at first 0.
class Partials {
 public:
  explicit Partials(const Blocks& blocks) : channels_(blocks.channels), numbers_(2 * blocks.count * blocks.channels) {}
  double* first(int64_t block) const { return numbers_.data() + 2 * block * channels_; }
  double* second(int64_t block) const { return first(block) + channels_; }
  void clear(int64_t block) const { std::fill_n(first(block), 2 * channels_, 0.0); }

 private:
  int64_t channels_;
  Scratch<double> numbers_;
};

template <class T>
const PixelLoops& pixel_loops() {
  return loops().pixel[static_cast<std::size_t>(dtype_of<T>)];
}

/// Mean and sum of squares about it of all pixels, in block 0's place (Chan, Golub and LeVeque, 1979).
void join_moments(const Blocks& blocks, const Partials& parts) {
  double* const mean = parts.first(0);
  double* const squares = parts.second(0);
  auto before = static_cast<double>(blocks.pixels_of(0));
  for (int64_t b = 1; b < blocks.count; ++b) {
    const auto n = static_cast<double>(blocks.pixels_of(b));
    const double total = before + n;
    const double* const other = parts.first(b);
    const double* const other_squares = parts.second(b);
    for (int64_t c = 0; c < blocks.channels; ++c) {
      const double between = other[c] - mean[c];
      squares[c] += other_squares[c] + between * between * before * n / total;
      mean[c] += between * n / total;
    }
    before = total;
  }
}

void join_sums(const Blocks& blocks, const Partials& parts) {
  for (int64_t b = 1; b < blocks.count; ++b) {
    for (int64_t i = 0; i < 2 * blocks.channels; ++i) parts.first(0)[i] += parts.first(b)[i];
  }
}

template <class T>
T* at(const View& v, int64_t offset) {
  return v.as<T>() + offset;
}
template <class T>
T* at(const View* v, int64_t offset) {
  return v ? v->as<T>() + offset : nullptr;
}

template <class T>
void forward(const View& out, const View& mean, const View& var, const View& x, const View* weight, const View* bias,
             const View* residual, bool relu, double eps, bool batch) {
  took(Path::pixels, x.numel);
  const Blocks blocks(x);
  const PixelLoops& loop = pixel_loops<T>();
  const int64_t channels = blocks.channels;
  if (batch) {
    const Partials parts(blocks);
    blocks.share([&](int64_t b, int64_t offset, int64_t pixels) {
      parts.clear(b);
      loop.moments(at<T>(x, offset), pixels, channels, 0, parts.first(b), parts.second(b));
    });
    join_moments(blocks, parts);
    for (int64_t c = 0; c < channels; ++c) {
      put(mean, c, parts.first(0)[c]);
      const double off = parts.first(0)[c] - get(mean, c);  // about the mean as it is kept, as norm.cpp does
      put(var, c, parts.second(0)[c] / static_cast<double>(blocks.pixels) + off * off);
    }
  }
  const Scratch<T> numbers(3 * channels);
  T *const m = numbers.data(), *const scale = m + channels, *const shift = scale + channels;
  for (int64_t c = 0; c < channels; ++c) {
    m[c] = static_cast<T>(get(mean, c));
    scale[c] = static_cast<T>(get_or(weight, c, 1) / std::sqrt(get(var, c) + eps));
    shift[c] = static_cast<T>(get_or(bias, c, 0));
  }
  blocks.share([&](int64_t, int64_t offset, int64_t pixels) {
    loop.affine(at<T>(out, offset), at<T>(x, offset), at<T>(residual, offset), relu, m, scale, shift, pixels, channels);
  });
}

// The formulas are in norm.cpp.
template <class T>
void backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual, const View& g,
              const View* out, const View& x, const View& mean, const View& var, const View* weight, double eps,
              bool batch) {
  took(Path::pixels, x.numel);
  const Blocks blocks(x);
  const PixelLoops& loop = pixel_loops<T>();
  const int64_t channels = blocks.channels;
  const Scratch<T> numbers(4 * channels);
  T *const m = numbers.data(), *const of_g = m + channels, *const of_x = of_g + channels,
           *const constant = of_x + channels;
  for (int64_t c = 0; c < channels; ++c) m[c] = static_cast<T>(get(mean, c));
  const Partials parts(blocks);
  const bool sums = dresidual || batch || dweight || dbias;
  if (sums) {
    blocks.share([&](int64_t b, int64_t offset, int64_t pixels) {
      parts.clear(b);
      loop.products(at<T>(g, offset), at<T>(out, offset), at<T>(dresidual, offset), at<T>(x, offset), m, pixels,
                    channels, parts.first(b), parts.second(b));
    });
    join_sums(blocks, parts);
  }
  for (int64_t c = 0; c < channels; ++c) {
    const double r = 1 / std::sqrt(get(var, c) + eps), scale = get_or(weight, c, 1) * r;
    const double sum = sums ? parts.first(0)[c] : 0, product = sums ? parts.second(0)[c] : 0;
    if (dweight) put(*dweight, c, product * r);
    if (dbias) put(*dbias, c, sum);
    of_g[c] = static_cast<T>(scale);
    of_x[c] = static_cast<T>(batch ? -scale * r * r * product / static_cast<double>(blocks.pixels) : 0);
    constant[c] = static_cast<T>(batch ? -scale * sum / static_cast<double>(blocks.pixels) : 0);
  }
  if (!dx) return;
  // What is behind the relu has been written, if anybody wants it.
  const View& given = dresidual ? *dresidual : g;
  const View* const mask = dresidual ? nullptr : out;
  blocks.share([&](int64_t, int64_t offset, int64_t pixels) {
    loop.combine(at<T>(*dx, offset), at<T>(given, offset), at<T>(mask, offset), at<T>(x, offset), m, of_g, of_x,
                 constant, pixels, channels);
  });
}

/// InFloat of a result that may be missing.
struct MaybeResult {
  explicit MaybeResult(const View* given) {
    if (given) value.emplace(*given, InFloat::Use::write);
  }
  const View* view() const { return value ? &value->view() : nullptr; }
  void write_back() const {
    if (value) value->write_back();
  }
  std::optional<InFloat> value;
};

}  // namespace

void batch_norm_pixels(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                       const View* bias, const View* residual, bool relu, double eps, bool batch) {
  if (is_half(x.dtype)) {
    const InFloat result(out, InFloat::Use::write);
    const MaybeInFloat added(residual);
    batch_norm_pixels(result, mean, var, InFloat(x), weight, bias, added.view(), relu, eps, batch);
    return result.write_back();
  }
  visit_float_or_double(x.dtype, "batch_norm", [&](auto t) {
    forward<decltype(t)>(out, mean, var, x, weight, bias, residual, relu, eps, batch);
  });
}

void batch_norm_pixels_backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                                const View& g, const View* out, const View& x, const View& mean, const View& var,
                                const View* weight, double eps, bool batch) {
  if (is_half(x.dtype)) {
    const MaybeResult of_x(dx), of_residual(dresidual);
    const MaybeInFloat result(out);
    batch_norm_pixels_backward(of_x.view(), dweight, dbias, of_residual.view(), InFloat(g), result.view(), InFloat(x),
                               mean, var, weight, eps, batch);
    of_x.write_back();
    return of_residual.write_back();
  }
  visit_float_or_double(x.dtype, "batch_norm_backward", [&](auto t) {
    backward<decltype(t)>(dx, dweight, dbias, dresidual, g, out, x, mean, var, weight, eps, batch);
  });
}

}  // namespace tendril::cpu
