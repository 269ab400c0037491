#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/level/sums.h"

/// Rows of one channel.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

/// A piece's mean, then its squares about that while it is in the nearest cache, joined to what came before (Chan,
/// Golub and LeVeque, 1979): one reading of memory, without the cancellation of a sum of squares.
template <class T>
void moments(const void* row, int64_t count, Moments* all) {
  constexpr int64_t kPiece = 2048;
  for (int64_t first = 0; first < count; first += kPiece) {
    const T* x = static_cast<const T*>(row) + first;
    const int64_t length = count - first < kPiece ? count - first : kPiece;
    const auto n = static_cast<double>(length);
    const double mean = sum_of<T>(
                            length, [x](int64_t i) { return lanes(x + i); }, [x](int64_t i) { return x[i]; }) /
                        n;
    const T m = static_cast<T>(mean);
    const double off = mean - static_cast<double>(m);
    const double squares = sum_of<T>(
        length,
        [x, m](int64_t i) {
          const auto d = lanes(x + i) - m;
          return d * d;
        },
        [x, m](int64_t i) { return (x[i] - m) * (x[i] - m); });
    const double between = mean - all->mean, total = all->count + n;
    all->squares += squares - n * off * off + between * between * all->count * n / total;
    all->mean += between * n / total;
    all->count = total;
  }
}

template <class T>
void products(const void* g_row, const void* x_row, double mean, int64_t count, double* to) {
  const T* g = static_cast<const T*>(g_row);
  const T* x = static_cast<const T*>(x_row);
  const T m = static_cast<T>(mean);
  to[0] += sum_of<T>(
      count, [g](int64_t i) { return lanes(g + i); }, [g](int64_t i) { return g[i]; });
  to[1] += sum_of<T>(
      count, [g, x, m](int64_t i) { return lanes(g + i) * (lanes(x + i) - m); },
      [g, x, m](int64_t i) { return g[i] * (x[i] - m); });
}

template <class T>
void affine(void* out_row, const void* x_row, double mean, double scale, double shift, int64_t count) {
  T* out = static_cast<T*>(out_row);
  const T* x = static_cast<const T*>(x_row);
  const T m = static_cast<T>(mean), s = static_cast<T>(scale), t = static_cast<T>(shift);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = (x[i] - m) * s + t;
}

template <class T>
void combine(void* out_row, const void* g_row, const void* x_row, double mean, double a, double b, double c,
             int64_t count) {
  T* out = static_cast<T*>(out_row);
  const T* g = static_cast<const T*>(g_row);
  const T* x = static_cast<const T*>(x_row);
  const T m = static_cast<T>(mean), fa = static_cast<T>(a), fb = static_cast<T>(b), fc = static_cast<T>(c);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = g[i] * fa + (x[i] - m) * fb + fc;
}

template <class T>
void affine_relu(void* out_row, const void* x_row, const void* residual_row, double mean, double scale, double shift,
                 int64_t count) {
  T* out = static_cast<T*>(out_row);
  const T* x = static_cast<const T*>(x_row);
  const T* r = static_cast<const T*>(residual_row);
  const T m = static_cast<T>(mean), s = static_cast<T>(scale), t = static_cast<T>(shift);
  if (r) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const T y = (x[i] - m) * s + t + r[i];
      out[i] = y < T(0) ? T(0) : y;
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const T y = (x[i] - m) * s + t;
      out[i] = y < T(0) ? T(0) : y;
    }
  }
}

template <class T>
void relu_gradient(void* to_row, const void* g_row, const void* y_row, int64_t count) {
  T* to = static_cast<T*>(to_row);
  const T* g = static_cast<const T*>(g_row);
  const T* y = static_cast<const T*>(y_row);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) to[i] = y[i] <= T(0) ? T(0) : g[i];
}

template <class T>
constexpr ChannelLoops loops_for = {moments<T>, products<T>, affine<T>, combine<T>, affine_relu<T>, relu_gradient<T>};

/// The half types, a piece at a time in float.
template <class H>
struct Halves {
  static void moments_of(const void* row, int64_t count, Moments* all) {
    float x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(row) + at, n, x);
      moments<float>(x, n, all);
    });
  }
  static void products_of(const void* g_row, const void* x_row, double mean, int64_t count, double* to) {
    float g[kHalfPiece], x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(g_row) + at, n, g);
      widen(static_cast<const H*>(x_row) + at, n, x);
      products<float>(g, x, mean, n, to);
    });
  }
  static void affine_of(void* out_row, const void* x_row, double mean, double scale, double shift, int64_t count) {
    float x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(x_row) + at, n, x);
      affine<float>(x, x, mean, scale, shift, n);
      narrow(x, n, static_cast<H*>(out_row) + at);
    });
  }
  static void combine_of(void* out_row, const void* g_row, const void* x_row, double mean, double a, double b, double c,
                         int64_t count) {
    float g[kHalfPiece], x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(g_row) + at, n, g);
      widen(static_cast<const H*>(x_row) + at, n, x);
      combine<float>(g, g, x, mean, a, b, c, n);
      narrow(g, n, static_cast<H*>(out_row) + at);
    });
  }
  static void affine_relu_of(void* out_row, const void* x_row, const void* residual_row, double mean, double scale,
                             double shift, int64_t count) {
    float x[kHalfPiece], r[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(x_row) + at, n, x);
      if (residual_row) widen(static_cast<const H*>(residual_row) + at, n, r);
      affine_relu<float>(x, x, residual_row ? r : nullptr, mean, scale, shift, n);
      narrow(x, n, static_cast<H*>(out_row) + at);
    });
  }
  static void relu_gradient_of(void* to_row, const void* g_row, const void* y_row, int64_t count) {
    float g[kHalfPiece], y[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(g_row) + at, n, g);
      widen(static_cast<const H*>(y_row) + at, n, y);
      relu_gradient<float>(g, g, y, n);
      narrow(g, n, static_cast<H*>(to_row) + at);
    });
  }
  static constexpr ChannelLoops kLoops = {moments_of, products_of,    affine_of,
                                          combine_of, affine_relu_of, relu_gradient_of};
};

}  // namespace

extern const ByDType<ChannelLoops> channel_loops;
const ByDType<ChannelLoops> channel_loops = {
    {loops_for<float>, loops_for<double>, {}, {}, {}, {}, Halves<Half>::kLoops, Halves<BFloat16>::kLoops}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
