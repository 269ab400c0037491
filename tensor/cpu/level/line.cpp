#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/level/sums.h"

/// Lines of layer normalisation, summed as the rows of channel.cpp are.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class T>
double squares(const void* line, int64_t count) {
  const T* x = static_cast<const T*>(line);
  return sum_of<T>(
      count, [x](int64_t i) { return lanes(x + i) * lanes(x + i); }, [x](int64_t i) { return x[i] * x[i]; });
}

/// Calls f with weight and bias as functions of the place, so that a loop has those that there are and no branch.
template <class T, class F>
void with_factor(const void* weight, F f) {
  const T* w = static_cast<const T*>(weight);
  if (w) {
    f([w](int64_t i) { return w[i]; });
  } else {
    f([](int64_t) { return T(1); });
  }
}

template <class T>
void normalise(void* out_line, const void* line, double mean, double rstd, const void* weight, const void* bias,
               int64_t count) {
  T* out = static_cast<T*>(out_line);
  const T* x = static_cast<const T*>(line);
  const T* b = static_cast<const T*>(bias);
  const T m = static_cast<T>(mean), r = static_cast<T>(rstd);
  with_factor<T>(weight, [&](auto w) {
    if (b) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = (x[i] - m) * r * w(i) + b[i];
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = (x[i] - m) * r * w(i);
    }
  });
}

template <class T>
void products(const void* g_line, const void* x_line, double mean, const void* weight, int64_t count, double* to) {
  const T* g = static_cast<const T*>(g_line);
  const T* x = static_cast<const T*>(x_line);
  const T* w = static_cast<const T*>(weight);
  const T m = static_cast<T>(mean);
  if (w) {
    to[0] += sum_of<T>(
        count, [g, w](int64_t i) { return lanes(g + i) * lanes(w + i); }, [g, w](int64_t i) { return g[i] * w[i]; });
    to[1] += sum_of<T>(
        count, [g, w, x, m](int64_t i) { return lanes(g + i) * lanes(w + i) * (lanes(x + i) - m); },
        [g, w, x, m](int64_t i) { return g[i] * w[i] * (x[i] - m); });
  } else {
    to[0] += sum_of<T>(
        count, [g](int64_t i) { return lanes(g + i); }, [g](int64_t i) { return g[i]; });
    to[1] += sum_of<T>(
        count, [g, x, m](int64_t i) { return lanes(g + i) * (lanes(x + i) - m); },
        [g, x, m](int64_t i) { return g[i] * (x[i] - m); });
  }
}

template <class T>
void combine(void* out_line, const void* g_line, const void* x_line, double mean, const void* weight, double a,
             double b, double c, int64_t count) {
  T* out = static_cast<T*>(out_line);
  const T* g = static_cast<const T*>(g_line);
  const T* x = static_cast<const T*>(x_line);
  const T m = static_cast<T>(mean), fa = static_cast<T>(a), fb = static_cast<T>(b), fc = static_cast<T>(c);
  with_factor<T>(weight, [&](auto w) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = g[i] * w(i) * fa + (x[i] - m) * fb + fc;
  });
}

template <class T>
void parameters(void* to_weight, void* to_bias, const void* g_line, const void* x_line, double mean, double rstd,
                int64_t count) {
  T* dweight = static_cast<T*>(to_weight);
  T* dbias = static_cast<T*>(to_bias);
  const T* g = static_cast<const T*>(g_line);
  const T* x = static_cast<const T*>(x_line);
  const T m = static_cast<T>(mean), r = static_cast<T>(rstd);
  if (dweight && dbias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      dweight[i] += g[i] * ((x[i] - m) * r);
      dbias[i] += g[i];
    }
  } else if (dweight) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dweight[i] += g[i] * ((x[i] - m) * r);
  } else if (dbias) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) dbias[i] += g[i];
  }
}

template <class T>
void drain(double* to, void* sums, int64_t count) {
  T* from = static_cast<T*>(sums);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    to[i] += static_cast<double>(from[i]);
    from[i] = T(0);
  }
}

template <class T>
constexpr LineLoops loops_for = {squares<T>, normalise<T>, products<T>, combine<T>, parameters<T>, drain<T>};

/// The half types, a piece at a time in float; weights, biases and sums are float.
template <class H>
struct Halves {
  static const void* from(const void* floats, int64_t at) {
    return floats ? static_cast<const float*>(floats) + at : nullptr;
  }
  static void* from(void* floats, int64_t at) { return floats ? static_cast<float*>(floats) + at : nullptr; }

  static double squares_of(const void* line, int64_t count) {
    float x[kHalfPiece];
    double sum = 0;
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(line) + at, n, x);
      sum += squares<float>(x, n);
    });
    return sum;
  }
  static void normalise_of(void* out_line, const void* line, double mean, double rstd, const void* weight,
                           const void* bias, int64_t count) {
    float x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(line) + at, n, x);
      normalise<float>(x, x, mean, rstd, from(weight, at), from(bias, at), n);
      narrow(x, n, static_cast<H*>(out_line) + at);
    });
  }
  static void products_of(const void* g_line, const void* x_line, double mean, const void* weight, int64_t count,
                          double* to) {
    float g[kHalfPiece], x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(g_line) + at, n, g);
      widen(static_cast<const H*>(x_line) + at, n, x);
      products<float>(g, x, mean, from(weight, at), n, to);
    });
  }
  static void combine_of(void* out_line, const void* g_line, const void* x_line, double mean, const void* weight,
                         double a, double b, double c, int64_t count) {
    float g[kHalfPiece], x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(g_line) + at, n, g);
      widen(static_cast<const H*>(x_line) + at, n, x);
      combine<float>(g, g, x, mean, from(weight, at), a, b, c, n);
      narrow(g, n, static_cast<H*>(out_line) + at);
    });
  }
  static void parameters_of(void* to_weight, void* to_bias, const void* g_line, const void* x_line, double mean,
                            double rstd, int64_t count) {
    float g[kHalfPiece], x[kHalfPiece];
    for_pieces(count, [&](int64_t at, int64_t n) {
      widen(static_cast<const H*>(g_line) + at, n, g);
      widen(static_cast<const H*>(x_line) + at, n, x);
      parameters<float>(from(to_weight, at), from(to_bias, at), g, x, mean, rstd, n);
    });
  }
  static constexpr LineLoops kLoops = {squares_of, normalise_of, products_of, combine_of, parameters_of, drain<float>};
};

}  // namespace

extern const ByDType<LineLoops> line_loops;
const ByDType<LineLoops> line_loops = {
    {loops_for<float>, loops_for<double>, {}, {}, {}, {}, Halves<Half>::kLoops, Halves<BFloat16>::kLoops}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
