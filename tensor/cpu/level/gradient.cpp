#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/detail/columns.h"
#include "tendril/tensor/scalar_math.h"

/// The fused gradients of the table.
namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class T>
Compute<T> load(const char* p) {
  return static_cast<Compute<T>>(*reinterpret_cast<const T*>(p));
}

template <Unary op, class T>
struct UnaryGradient;
template <Binary op, int operand, class T>
struct BinaryGradient;

// What was kept is x in some rows and y in others.
#define TENDRIL_UNARY(name, doc, dtypes, expression, saves, gradient, fused, ...)      \
  template <class T>                                                                   \
  struct UnaryGradient<Unary::name, T> {                                               \
    static constexpr bool exists = tendril::detail::is_fused(#fused);                  \
    static constexpr bool has_parameter = tendril::detail::mentions(#expression, 'p'); \
    T p = T(0);                                                                        \
    T operator()([[maybe_unused]] T g, [[maybe_unused]] T x) const {                   \
      using namespace std;                                                             \
      using namespace scalar_math;                                                     \
      [[maybe_unused]] const T y = x;                                                  \
      return static_cast<T>(fused);                                                    \
    }                                                                                  \
  };
#define TENDRIL_BINARY(name, doc, dtypes, expression, saves, gradient_x, gradient_y, fused_x, fused_y, ...) \
  template <class T>                                                                                        \
  struct BinaryGradient<Binary::name, 0, T> {                                                               \
    static constexpr bool exists = tendril::detail::is_fused(#fused_x);                                     \
    static T apply([[maybe_unused]] T g, [[maybe_unused]] T x, [[maybe_unused]] T y) {                      \
      using namespace std;                                                                                  \
      using namespace scalar_math;                                                                          \
      return static_cast<T>(fused_x);                                                                       \
    }                                                                                                       \
  };                                                                                                        \
  template <class T>                                                                                        \
  struct BinaryGradient<Binary::name, 1, T> {                                                               \
    static constexpr bool exists = tendril::detail::is_fused(#fused_y);                                     \
    static T apply([[maybe_unused]] T g, [[maybe_unused]] T x, [[maybe_unused]] T y) {                      \
      using namespace std;                                                                                  \
      using namespace scalar_math;                                                                          \
      return static_cast<T>(fused_y);                                                                       \
    }                                                                                                       \
  };
#include "tendril/tensor/pointwise.def"

template <class F, class T>
void map_unary(char* const* pointers, const int64_t* steps, int64_t count) {
  using C = Compute<T>;
  constexpr int64_t unit = sizeof(T);
  if constexpr (std::is_same_v<T, Half>) {
    if (by_float<2, F::has_parameter, T>(map_unary<F, float>, pointers, steps, count)) return;
  }
  F f;
  if constexpr (F::has_parameter) f.p = static_cast<C>(*reinterpret_cast<const double*>(pointers[3]));
  T* out = reinterpret_cast<T*>(pointers[0]);
  const T* g = reinterpret_cast<const T*>(pointers[1]);
  const T* kept = reinterpret_cast<const T*>(pointers[2]);
  if (steps[0] == unit && steps[1] == unit && steps[2] == unit) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(f(static_cast<C>(g[i]), static_cast<C>(kept[i])));
    return;
  }
  if (steps[0] == unit && steps[1] == 0 && steps[2] == unit) {  // the gradient of a sum
    const C one = static_cast<C>(*g);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(f(one, static_cast<C>(kept[i])));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    *reinterpret_cast<T*>(pointers[0] + i * steps[0]) =
        static_cast<T>(f(load<T>(pointers[1] + i * steps[1]), load<T>(pointers[2] + i * steps[2])));
  }
}

template <class F, class T>
void map_binary(char* const* pointers, const int64_t* steps, int64_t count) {
  using C = Compute<T>;
  constexpr int64_t unit = sizeof(T);
  if constexpr (std::is_same_v<T, Half>) {
    if (by_float<3, false, T>(map_binary<F, float>, pointers, steps, count)) return;
  }
  T* out = reinterpret_cast<T*>(pointers[0]);
  const T* g = reinterpret_cast<const T*>(pointers[1]);
  const T* x = reinterpret_cast<const T*>(pointers[2]);
  const T* y = reinterpret_cast<const T*>(pointers[3]);
  const bool together = steps[0] == unit && steps[1] == unit && steps[2] == unit;
  if (together && steps[3] == unit) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(F::apply(static_cast<C>(g[i]), static_cast<C>(x[i]), static_cast<C>(y[i])));
    }
    return;
  }
  if (together && steps[3] == 0) {
    const C b = static_cast<C>(*y);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(F::apply(static_cast<C>(g[i]), static_cast<C>(x[i]), b));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    *reinterpret_cast<T*>(pointers[0] + i * steps[0]) = static_cast<T>(F::apply(
        load<T>(pointers[1] + i * steps[1]), load<T>(pointers[2] + i * steps[2]), load<T>(pointers[3] + i * steps[3])));
  }
}

/// Gradients are floating.
template <Unary op>
constexpr ByDType<Loop> unary_row() {
  if constexpr (UnaryGradient<op, float>::exists) {
    return {map_unary<UnaryGradient<op, float>, float>,
            map_unary<UnaryGradient<op, double>, double>,
            nullptr,
            nullptr,
            nullptr,
            nullptr,
            map_unary<UnaryGradient<op, float>, Half>,
            map_unary<UnaryGradient<op, float>, BFloat16>};
  } else {
    return {};
  }
}
template <Binary op, int operand>
constexpr ByDType<Loop> binary_row() {
  if constexpr (BinaryGradient<op, operand, float>::exists) {
    return {map_binary<BinaryGradient<op, operand, float>, float>,
            map_binary<BinaryGradient<op, operand, double>, double>,
            nullptr,
            nullptr,
            nullptr,
            nullptr,
            map_binary<BinaryGradient<op, operand, float>, Half>,
            map_binary<BinaryGradient<op, operand, float>, BFloat16>};
  } else {
    return {};
  }
}

}  // namespace

extern const ByOp<Unary, Loop> unary_gradient_loops;
const ByOp<Unary, Loop> unary_gradient_loops = {{
#define TENDRIL_UNARY(name, ...) unary_row<Unary::name>(),
#include "tendril/tensor/pointwise.def"
}};

extern const std::array<ByOp<Binary, Loop>, 2> binary_gradient_loops;
const std::array<ByOp<Binary, Loop>, 2> binary_gradient_loops = {{{{
#define TENDRIL_BINARY(name, ...) binary_row<Binary::name, 0>(),
#include "tendril/tensor/pointwise.def"
                                                                  }},
                                                                  {{
#define TENDRIL_BINARY(name, ...) binary_row<Binary::name, 1>(),
#include "tendril/tensor/pointwise.def"
                                                                  }}}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
