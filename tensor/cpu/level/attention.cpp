#include <limits>

#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/scalar_math.h"

/// Rows of scores, which lie in a cache. Products and sums are contracted here (CMakeLists.txt).
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class T, bool masked>
double largest_of(T* s, int64_t count, T scale, const T* added) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t L = Lanes<T>::count;
  const auto scaled = [&](int64_t i) {
    Vector& to = *reinterpret_cast<Vector*>(s + i);
    to *= scale;
    if constexpr (masked) {
      const Vector more = *reinterpret_cast<const Vector*>(added + i);
      to = more == -std::numeric_limits<T>::infinity() ? more : to + more;
    }
    return to;
  };
  T most = -INFINITY;
  int64_t i = 0;
  if (count >= 2 * L) {
    Vector a = scaled(0), b = scaled(L);
    for (i = 2 * L; i + 2 * L <= count; i += 2 * L) {
      const Vector x = scaled(i), y = scaled(i + L);
      a = x > a ? x : a;
      b = y > b ? y : b;
    }
    a = a > b ? a : b;
    for (int64_t l = 0; l < L; ++l) most = a[l] > most ? a[l] : most;
  }
  for (; i < count; ++i) {
    s[i] *= scale;
    if constexpr (masked) s[i] = added[i] == -std::numeric_limits<T>::infinity() ? added[i] : s[i] + added[i];
    most = s[i] > most ? s[i] : most;
  }
  return static_cast<double>(most);  // a NaN may be lost here; it makes the sum one
}
template <class T>
double largest(void* scores, int64_t count, double by, const void* mask) {
  T* const s = static_cast<T*>(scores);
  const T scale = static_cast<T>(by);
  if (!mask) return largest_of<T, false>(s, count, scale, nullptr);
  return largest_of<T, true>(s, count, scale, static_cast<const T*>(mask));
}

/// In lanes of T: a block is short enough.
template <class T>
double exponentials(void* scores, int64_t count, double by) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t L = Lanes<T>::count;
  T* const s = static_cast<T*>(scores);
  const T shift = static_cast<T>(by);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) s[i] = scalar_math::exponential(s[i] - shift);
  Vector a = {}, b = {};
  int64_t i = 0;
  for (; i + 2 * L <= count; i += 2 * L) {
    a += *reinterpret_cast<const Vector*>(s + i);
    b += *reinterpret_cast<const Vector*>(s + i + L);
  }
  a += b;
  double sum = 0;
  for (int64_t l = 0; l < L; ++l) sum += static_cast<double>(a[l]);
  for (; i < count; ++i) sum += static_cast<double>(s[i]);
  return sum;
}

template <class T>
void multiply(void* row, int64_t count, double by) {
  T* const x = static_cast<T*>(row);
  const T factor = static_cast<T>(by);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) x[i] *= factor;
}

template <class T>
void gradient(void* scores, void* products, int64_t count, double by, const void* mask, double log, double dot) {
  T *const s = static_cast<T*>(scores), *const d = static_cast<T*>(products);
  const T scale = static_cast<T>(by), log_sum = static_cast<T>(log), of_row = static_cast<T>(dot);
  if (const T* const added = static_cast<const T*>(mask)) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const T score = added[i] == -std::numeric_limits<T>::infinity() ? added[i] : s[i] * scale + added[i];
      s[i] = scalar_math::exponential(score - log_sum);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) s[i] = scalar_math::exponential(s[i] * scale - log_sum);
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) d[i] = s[i] == T(0) ? T(0) : s[i] * (d[i] - of_row) * scale;
}

template <class T>
double dot(const void* first, const void* second, int64_t count) {
  const T *const x = static_cast<const T*>(first), *const y = static_cast<const T*>(second);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

template <class T>
constexpr AttentionLoops loops_for = {largest<T>, exponentials<T>, multiply<T>, gradient<T>, dot<T>};

}  // namespace

extern const ByDType<AttentionLoops> attention_loops;
const ByDType<AttentionLoops> attention_loops = {{loops_for<float>, loops_for<double>}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
