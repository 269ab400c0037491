#include <cmath>

#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"

/// Images in channels-last order: pixels, one behind the other, of all channels each.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

// What is added up for some channels side by side: in four registers, in one, or a single channel.
template <class T>
struct FourLanes {
  typedef typename Lanes<T>::Vector V;
  static constexpr int64_t lanes = Lanes<T>::count, registers = 4;
};
template <class T>
struct OneLane {
  typedef typename Lanes<T>::Vector V;
  static constexpr int64_t lanes = Lanes<T>::count, registers = 1;
};
template <class T>
struct SingleChannel {
  typedef T V;
  static constexpr int64_t lanes = 1, registers = 1;
};

/// f(how, c) for channels from c on, until all are done.
template <class T, class F>
void for_channels(int64_t channels, F f) {
  constexpr int64_t L = Lanes<T>::count;
  int64_t c = 0;
  for (; c + 4 * L <= channels; c += 4 * L) f(FourLanes<T>(), c);
  for (; c + L <= channels; c += L) f(OneLane<T>(), c);
  for (; c < channels; ++c) f(SingleChannel<T>(), c);
}

/// Pixels that are added up in the elements' own type before they go to double; while they are in the nearest cache
/// they may be read twice.
constexpr int64_t kPixels = 64;

/// As of a channel's row (channel.cpp): a piece's mean, then its squares about that, joined to what came before. What
/// is left of the mean is added up in the second reading, too.
template <class T>
void moments(const void* pixels, int64_t count, int64_t channels, double before, double* mean, double* squares) {
  for (int64_t first = 0; first < count; first += kPixels) {
    const T* const piece = static_cast<const T*>(pixels) + first * channels;
    const int64_t length = count - first < kPixels ? count - first : kPixels;
    const double n = static_cast<double>(length), total = before + n;
    for_channels<T>(channels, [=](auto how, int64_t c) {
      typedef typename decltype(how)::V V;
      constexpr int64_t L = decltype(how)::lanes, K = decltype(how)::registers;
      V m[K] = {}, rest[K] = {}, square[K] = {};
      for (int64_t i = 0; i < length; ++i) {
        const T* const x = piece + i * channels + c;
        for (int64_t k = 0; k < K; ++k) m[k] += *reinterpret_cast<const V*>(x + k * L);
      }
      for (int64_t k = 0; k < K; ++k) m[k] /= static_cast<T>(length);
      for (int64_t i = 0; i < length; ++i) {
        const T* const x = piece + i * channels + c;
        for (int64_t k = 0; k < K; ++k) {
          const V off = *reinterpret_cast<const V*>(x + k * L) - m[k];
          rest[k] += off;
          square[k] += off * off;
        }
      }
      const T* const ms = reinterpret_cast<const T*>(m);
      const T* const rests = reinterpret_cast<const T*>(rest);
      const T* const square_of = reinterpret_cast<const T*>(square);
      for (int64_t l = 0; l < K * L; ++l) {
        const double r = static_cast<double>(rests[l]), between = static_cast<double>(ms[l]) + r / n - mean[c + l];
        squares[c + l] += static_cast<double>(square_of[l]) - r * r / n + between * between * before * n / total;
        mean[c + l] += between * n / total;
      }
    });
    before = total;
  }
}

template <class T, bool relu, bool keep>
void products_of(const void* g_pixels, const void* y_pixels, void* to_pixels, const void* x_pixels, const void* mean,
                 int64_t count, int64_t channels, double* sums, double* products) {
  for (int64_t first = 0; first < count; first += kPixels) {
    const int64_t at = first * channels, length = count - first < kPixels ? count - first : kPixels;
    for_channels<T>(channels, [=](auto how, int64_t c) {
      typedef typename decltype(how)::V V;
      constexpr int64_t L = decltype(how)::lanes, K = decltype(how)::registers;
      V sum[K] = {}, product[K] = {}, m[K];
      for (int64_t k = 0; k < K; ++k) m[k] = *reinterpret_cast<const V*>(static_cast<const T*>(mean) + c + k * L);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t place = at + i * channels + c;
        for (int64_t k = 0; k < K; ++k) {
          V g = *reinterpret_cast<const V*>(static_cast<const T*>(g_pixels) + place + k * L);
          if constexpr (relu) {
            const V y = *reinterpret_cast<const V*>(static_cast<const T*>(y_pixels) + place + k * L), zero = {};
            g = y <= zero ? zero : g;
          }
          if constexpr (keep) *reinterpret_cast<V*>(static_cast<T*>(to_pixels) + place + k * L) = g;
          sum[k] += g;
          product[k] += g * (*reinterpret_cast<const V*>(static_cast<const T*>(x_pixels) + place + k * L) - m[k]);
        }
      }
      const T* const s = reinterpret_cast<const T*>(sum);
      const T* const p = reinterpret_cast<const T*>(product);
      for (int64_t l = 0; l < K * L; ++l) {
        sums[c + l] += static_cast<double>(s[l]);
        products[c + l] += static_cast<double>(p[l]);
      }
    });
  }
}

template <class T>
void products(const void* g, const void* y, void* to, const void* x, const void* mean, int64_t count, int64_t channels,
              double* sums, double* products) {
  if (!y) return products_of<T, false, false>(g, y, to, x, mean, count, channels, sums, products);
  if (!to) return products_of<T, true, false>(g, y, to, x, mean, count, channels, sums, products);
  products_of<T, true, true>(g, y, to, x, mean, count, channels, sums, products);
}

template <class T, bool add, bool relu>
void affine_of(T* out, const T* x, const T* residual, const T* mean, const T* scale, const T* shift, int64_t count,
               int64_t channels) {
  for (int64_t i = 0; i < count; ++i, out += channels, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      T y = (x[c] - mean[c]) * scale[c] + shift[c];
      if constexpr (add) y += residual[i * channels + c];
      if constexpr (relu) y = y < T(0) ? T(0) : y;
      out[c] = y;
    }
  }
}

template <class T>
void affine(void* out_pixels, const void* x_pixels, const void* residual_pixels, bool relu, const void* mean,
            const void* scale, const void* shift, int64_t count, int64_t channels) {
  T* const out = static_cast<T*>(out_pixels);
  const T *const x = static_cast<const T*>(x_pixels), *const residual = static_cast<const T*>(residual_pixels);
  const T *const m = static_cast<const T*>(mean), *const s = static_cast<const T*>(scale),
                 *const t = static_cast<const T*>(shift);
  if (!relu) return affine_of<T, false, false>(out, x, residual, m, s, t, count, channels);
  if (!residual) return affine_of<T, false, true>(out, x, residual, m, s, t, count, channels);
  affine_of<T, true, true>(out, x, residual, m, s, t, count, channels);
}

template <class T>
void combine(void* out_pixels, const void* g_pixels, const void* y_pixels, const void* x_pixels, const void* means,
             const void* of_g, const void* of_x, const void* constants, int64_t count, int64_t channels) {
  T* const out = static_cast<T*>(out_pixels);
  const T *const g = static_cast<const T*>(g_pixels), *const y = static_cast<const T*>(y_pixels),
                 *const x = static_cast<const T*>(x_pixels), *const mean = static_cast<const T*>(means),
                 *const a = static_cast<const T*>(of_g), *const b = static_cast<const T*>(of_x),
                 *const constant = static_cast<const T*>(constants);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * channels;
    if (y) {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        out[at + c] = (y[at + c] <= T(0) ? T(0) : g[at + c]) * a[c] + (x[at + c] - mean[c]) * b[c] + constant[c];
      }
    } else {
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c)
        out[at + c] = g[at + c] * a[c] + (x[at + c] - mean[c]) * b[c] + constant[c];
    }
  }
}

/// `Place` is as wide as T, so that both are chosen by one mask.
template <class T, class Place>
void largest(const void* image, const int64_t* places, int64_t count, int64_t channels, void* values,
             int64_t* indices) {
  constexpr int64_t kBlock = 64;
  for (int64_t first = 0; first < channels; first += kBlock) {
    const int64_t length = channels - first < kBlock ? channels - first : kBlock;
    T best[kBlock];
    Place at[kBlock];
    for (int64_t l = 0; l < length; ++l) {
      best[l] = -static_cast<T>(INFINITY);
      at[l] = static_cast<Place>(places[0]);
    }
    for (int64_t i = 0; i < count; ++i) {
      const T* const x = static_cast<const T*>(image) + places[i] * channels + first;
      const Place place = static_cast<Place>(places[i]);
      for (int64_t l = 0; l < length; ++l) {
        const T value = x[l];
        const bool better = (value > best[l]) | (value != value);  // NaN wins
        best[l] = better ? value : best[l];
        at[l] = better ? place : at[l];
      }
    }
    T* const to = static_cast<T*>(values) + first;
    for (int64_t l = 0; l < length; ++l) to[l] = best[l];
    for (int64_t l = 0; l < length; ++l) indices[first + l] = static_cast<int64_t>(at[l]);
  }
}

template <class T, class Place>
constexpr PixelLoops loops_for = {moments<T>, products<T>, affine<T>, combine<T>, largest<T, Place>};

}  // namespace

extern const ByDType<PixelLoops> pixel_loops;
const ByDType<PixelLoops> pixel_loops = {{loops_for<float, int32_t>, loops_for<double, int64_t>}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
