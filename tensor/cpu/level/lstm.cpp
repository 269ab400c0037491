#include <cmath>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/scalar_math.h"

/// Float32 activations have no branches or calls: loops over them become vector code, if they are long enough.
/// (kernels.h has the formulas.)
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

/// Below this many cells, a gate's part of a row is shorter than a few registers.
constexpr int64_t kShortRow = 16;

template <class T>
Compute<T> load(const T* p) {
  return static_cast<Compute<T>>(*p);
}

template <class T>
void add_and_squash(T* gates, const T* x, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) gates[i] = static_cast<T>(scalar_math::logistic(load(gates + i) + load(x + i)));
}

template <class T>
void forward(const LstmStep& s) {
  using C = Compute<T>;
  const int64_t H = s.cells, count = s.batch * H;
  T* gates = static_cast<T*>(s.gates);
  const T* x = static_cast<const T*>(s.x_gates);
  const T* c = static_cast<const T*>(s.c);
  T* next_c = static_cast<T*>(s.next_c);
  T* tanh_c = static_cast<T*>(s.tanh_c);
  T* h = static_cast<T*>(s.h);

  if (H < kShortRow) {  // all gates in one loop, as if they were alike; the cell gates' sums are kept in tanh_c
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t k = 0; k < H; ++k) {
        const int64_t at = (4 * n + 2) * H + k;
        tanh_c[n * H + k] = static_cast<T>(load(gates + at) + load(x + at));
      }
    }
    add_and_squash(gates, x, 4 * count);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) tanh_c[i] = static_cast<T>(scalar_math::hyperbolic_tangent(load(tanh_c + i)));
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t k = 0; k < H; ++k) gates[(4 * n + 2) * H + k] = tanh_c[n * H + k];
    }
  } else {
    for (int64_t n = 0; n < s.batch; ++n) {
      T* row = gates + 4 * n * H;
      const T* x_row = x + 4 * n * H;
      add_and_squash(row, x_row, 2 * H);
#pragma GCC ivdep
      for (int64_t k = 2 * H; k < 3 * H; ++k) {
        row[k] = static_cast<T>(scalar_math::hyperbolic_tangent(load(row + k) + load(x_row + k)));
      }
      add_and_squash(row + 3 * H, x_row + 3 * H, H);
    }
  }

  for (int64_t n = 0; n < s.batch; ++n) {
    const T* row = gates + 4 * n * H;
#pragma GCC ivdep
    for (int64_t k = 0; k < H; ++k) {
      const C kept = load(row + H + k) * load(c + n * H + k);
      next_c[n * H + k] = static_cast<T>(kept + load(row + k) * load(row + 2 * H + k));
    }
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) tanh_c[i] = static_cast<T>(scalar_math::hyperbolic_tangent(load(next_c + i)));
  for (int64_t n = 0; n < s.batch; ++n) {
    const T* o = gates + (4 * n + 3) * H;
#pragma GCC ivdep
    for (int64_t k = 0; k < H; ++k) h[n * H + k] = static_cast<T>(load(o + k) * load(tanh_c + n * H + k));
  }
}

template <class T>
void backward(const LstmStepBackward& s) {
  using C = Compute<T>;
  const int64_t H = s.cells;
  for (int64_t n = 0; n < s.batch; ++n) {
    T* d_gates = static_cast<T*>(s.d_gates) + 4 * n * H;
    T* d_c = static_cast<T*>(s.d_c) + n * H;
    const T* d_h = static_cast<const T*>(s.d_h) + n * H;
    const T* d_out = s.d_out ? static_cast<const T*>(s.d_out) + n * H : nullptr;
    const T* gates = static_cast<const T*>(s.gates) + 4 * n * H;
    const T* c = static_cast<const T*>(s.c) + n * H;
    const T* tanh_c = static_cast<const T*>(s.tanh_c) + n * H;
#pragma GCC ivdep
    for (int64_t k = 0; k < H; ++k) {
      const C i = load(gates + k), f = load(gates + H + k), g = load(gates + 2 * H + k), o = load(gates + 3 * H + k);
      const C t = load(tanh_c + k), dh = d_out ? load(d_h + k) + load(d_out + k) : load(d_h + k);
      const C dc = load(d_c + k) + dh * o * (C(1) - t * t);
      d_gates[k] = static_cast<T>(dc * g * i * (C(1) - i));
      d_gates[H + k] = static_cast<T>(dc * load(c + k) * f * (C(1) - f));
      d_gates[2 * H + k] = static_cast<T>(dc * i * (C(1) - g * g));
      d_gates[3 * H + k] = static_cast<T>(dh * t * o * (C(1) - o));
      d_c[k] = static_cast<T>(dc * f);
    }
  }
}

template <class T>
constexpr LstmLoops loops_for = {forward<T>, backward<T>};

}  // namespace

extern const ByDType<LstmLoops> lstm_loops;
const ByDType<LstmLoops> lstm_loops = {
    {loops_for<float>, loops_for<double>, {}, {}, {}, {}, loops_for<Half>, loops_for<BFloat16>}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
