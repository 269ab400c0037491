#include <cmath>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/detail/dispatch.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu {
namespace {

template <class F>
void visit_floating(DType dtype, F&& f) {
  TENDRIL_CHECK_AS(DTypeError, is_floating(dtype), "lstm_cell: no cpu kernel for ", dtype);
  detail::visit(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<Compute<typename decltype(tag)::type>>) f(tag);
  });
}

}  // namespace

void lstm_cell(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& h) {
  visit_floating(gates.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const int64_t batch = h.sizes[0], cells = h.sizes[1];
    T* gate = gates.as<T>();
    const T* x = x_gates.as<const T>();
    const T* old = c.as<const T>();
    T* next = next_c.as<T>();
    T* out = h.as<T>();
    for (int64_t n = 0; n < batch; ++n, gate += 4 * cells, x += 4 * cells, old += cells, next += cells, out += cells) {
      for (int64_t k = 0; k < cells; ++k) {
        const auto sum = [&](int64_t at) { return load(gate + at) + load(x + at); };
        const C i = scalar_math::logistic(sum(k)), f = scalar_math::logistic(sum(cells + k));
        const C g = std::tanh(sum(2 * cells + k)), o = scalar_math::logistic(sum(3 * cells + k));
        const C cell = f * load(old + k) + i * g;
        gate[k] = static_cast<T>(i);
        gate[cells + k] = static_cast<T>(f);
        gate[2 * cells + k] = static_cast<T>(g);
        gate[3 * cells + k] = static_cast<T>(o);
        next[k] = static_cast<T>(cell);
        out[k] = static_cast<T>(o * std::tanh(cell));
      }
    }
  });
}

void lstm_cell_backward(const View& d_gates, const View& d_c, const View& d_h, const View* d_out, const View& gates,
                        const View& c, const View& next_c) {
  visit_floating(gates.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const int64_t batch = d_h.sizes[0], cells = d_h.sizes[1];
    for (int64_t n = 0; n < batch; ++n) {
      const T* gate = gates.as<const T>() + n * 4 * cells;
      T* d_gate = d_gates.as<T>() + n * 4 * cells;
      for (int64_t k = 0; k < cells; ++k) {
        const int64_t at = n * cells + k;
        const C i = load(gate + k), f = load(gate + cells + k), g = load(gate + 2 * cells + k);
        const C o = load(gate + 3 * cells + k), t = std::tanh(load(next_c.as<const T>() + at));
        const C dh = load(d_h.as<const T>() + at) + (d_out ? load(d_out->as<const T>() + at) : C(0));
        const C dc = load(d_c.as<const T>() + at) + dh * o * (C(1) - t * t);
        d_gate[k] = static_cast<T>(dc * g * i * (C(1) - i));
        d_gate[cells + k] = static_cast<T>(dc * load(c.as<const T>() + at) * f * (C(1) - f));
        d_gate[2 * cells + k] = static_cast<T>(dc * i * (C(1) - g * g));
        d_gate[3 * cells + k] = static_cast<T>(dh * t * o * (C(1) - o));
        d_c.as<T>()[at] = static_cast<T>(dc * f);
      }
    }
  });
}

}  // namespace tendril::cpu
