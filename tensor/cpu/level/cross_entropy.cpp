#include "tendril/tensor/cpu/level/lanes.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/scalar_math.h"

/// Lines of scores. Products and sums are contracted here (CMakeLists.txt): most of the time goes into exponentials.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

constexpr int64_t kBlock = 512;

template <class T>
T largest_of(const T* x, int64_t count) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t L = Lanes<T>::count;
  T most = -INFINITY;
  int64_t i = 0;
  if (count >= 4 * L) {
    const auto at = [x](int64_t j) { return *reinterpret_cast<const Vector*>(x + j); };
    const auto larger = [](const Vector& a, const Vector& b) -> Vector { return a > b ? a : b; };
    Vector a = at(0), b = at(L), c = at(2 * L), d = at(3 * L);
    for (i = 4 * L; i + 4 * L <= count; i += 4 * L) {
      a = larger(at(i), a);
      b = larger(at(i + L), b);
      c = larger(at(i + 2 * L), c);
      d = larger(at(i + 3 * L), d);
    }
    a = larger(larger(a, b), larger(c, d));
    for (int64_t l = 0; l < L; ++l) most = a[l] > most ? a[l] : most;
  }
  for (; i < count; ++i) most = x[i] > most ? x[i] : most;
  return most;  // a NaN may be lost here; it makes the sum one
}

/// In lanes of T, which are added up in double: a block is short enough.
template <class T>
double sum_of_block(const T* x, int64_t count) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t L = Lanes<T>::count;
  Vector a = {}, b = {};
  int64_t i = 0;
  for (; i + 2 * L <= count; i += 2 * L) {
    a += *reinterpret_cast<const Vector*>(x + i);
    b += *reinterpret_cast<const Vector*>(x + i + L);
  }
  a += b;
  double sum = 0;
  for (int64_t l = 0; l < L; ++l) sum += static_cast<double>(a[l]);
  for (; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

/// This and the sum are always inline, so that a short line is one call.
template <class T>
[[gnu::always_inline]] inline double largest(const void* from, int64_t step, int64_t count) {
  const T* x = static_cast<const T*>(from);
  if (step == 1) return static_cast<double>(largest_of(x, count));
  T most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) most = x[i * step] > most ? x[i * step] : most;
  return static_cast<double>(most);
}

template <class T>
[[gnu::always_inline]] inline double exponentials(const void* from, int64_t step, int64_t count, double largest) {
  const T* x = static_cast<const T*>(from);
  const T most = static_cast<T>(largest);
  double sum = 0;
  T block[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = count - first < kBlock ? count - first : kBlock;
    const T* const part = x + first * step;
    if (step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < length; ++i) block[i] = scalar_math::exponential(part[i] - most);
    } else {
      for (int64_t i = 0; i < length; ++i) block[i] = scalar_math::exponential(part[i * step] - most);
    }
    sum += sum_of_block(block, length);
  }
  return sum;
}

template <class T>
void log_sum_exp(const void* x, int64_t step, int64_t count, void* to, void* log_sum) {
  const double most = largest<T>(x, step, count);
  *static_cast<T*>(to) = static_cast<T>(most);
  *static_cast<T*>(log_sum) = static_cast<T>(std::log(exponentials<T>(x, step, count, most)));
}

template <class T>
void backward(void* to, int64_t out_step, const void* from, int64_t x_step, int64_t count, const void* largest,
              const void* log_sum, const void* share) {
  T* out = static_cast<T*>(to);
  const T* x = static_cast<const T*>(from);
  const T most = *static_cast<const T*>(largest), log = *static_cast<const T*>(log_sum);
  const T scale = -*static_cast<const T*>(share);
  if (out_step == 1 && x_step == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = scalar_math::exponential((x[i] - most) - log) * scale;
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[i * out_step] = scalar_math::exponential((x[i * x_step] - most) - log) * scale;
    }
  }
}

template <class T>
constexpr CrossEntropyLoops loops_for = {log_sum_exp<T>, largest<T>, exponentials<T>, backward<T>};

}  // namespace

extern const ByDType<CrossEntropyLoops> cross_entropy_loops;
const ByDType<CrossEntropyLoops> cross_entropy_loops = {{loops_for<float>, loops_for<double>}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
