#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class T>
Compute<T> load(const T* p) {
  return static_cast<Compute<T>>(*p);
}

template <Binary op, class T>
struct BinaryFunction;
template <Compare op, class T>
struct CompareFunction;

#define TENDRIL_BINARY(name, doc, dtypes, expression, ...) \
  template <class T>                                       \
  struct BinaryFunction<Binary::name, T> {                 \
    static constexpr DTypeRule rule = DTypeRule::dtypes;   \
    static T apply(T x, T y) {                             \
      using namespace std;                                 \
      using namespace scalar_math;                         \
      return static_cast<T>(expression);                   \
    }                                                      \
  };
#define TENDRIL_COMPARE(name, doc, expression)         \
  template <class T>                                   \
  struct CompareFunction<Compare::name, T> {           \
    static bool apply(T x, T y) { return expression; } \
  };
#include "tendril/tensor/pointwise.def"

template <class F, class Out, class T>
void map(char* const* pointers, const int64_t* steps, int64_t count) {
  using C = Compute<T>;
  constexpr int64_t unit = sizeof(T);
  if constexpr (std::is_same_v<T, Half>) {
    if (by_float<2, false, Out>(map<F, Compute<Out>, float>, pointers, steps, count)) return;
  }
  if (steps[0] == sizeof(Out)) {
    Out* out = reinterpret_cast<Out*>(pointers[0]);
    const T* x = reinterpret_cast<const T*>(pointers[1]);
    const T* y = reinterpret_cast<const T*>(pointers[2]);
    if (steps[1] == unit && steps[2] == unit) {
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<Out>(F::apply(static_cast<C>(x[i]), static_cast<C>(y[i])));
      }
      return;
    }
    if (steps[1] == unit && steps[2] == 0) {
      const C b = load(y);
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(F::apply(static_cast<C>(x[i]), b));
      return;
    }
    if (steps[1] == 0 && steps[2] == unit) {
      const C a = load(x);
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(F::apply(a, static_cast<C>(y[i])));
      return;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto x = load(reinterpret_cast<const T*>(pointers[1] + i * steps[1]));
    const auto y = load(reinterpret_cast<const T*>(pointers[2] + i * steps[2]));
    *reinterpret_cast<Out*>(pointers[0] + i * steps[0]) = static_cast<Out>(F::apply(x, y));
  }
}

template <Binary op, class T>
constexpr Loop binary_loop() {
  using F = BinaryFunction<op, Compute<T>>;
  if constexpr (computes_in(F::rule, dtype_of<T>)) {
    return map<F, T, T>;
  } else {
    return nullptr;
  }
}

}  // namespace

extern const ByOp<Binary, Loop> binary_loops;
const ByOp<Binary, Loop> binary_loops = {{
#define TENDRIL_BINARY(name, ...)                                                                                    \
  {binary_loop<Binary::name, float>(),   binary_loop<Binary::name, double>(),  binary_loop<Binary::name, int64_t>(), \
   binary_loop<Binary::name, int32_t>(), binary_loop<Binary::name, uint8_t>(), binary_loop<Binary::name, bool>(),    \
   binary_loop<Binary::name, Half>(),    binary_loop<Binary::name, BFloat16>()},
#include "tendril/tensor/pointwise.def"
}};

namespace {
template <Compare op, class T>
constexpr Loop compare_loop() {
  return map<CompareFunction<op, Compute<T>>, bool, T>;
}
}  // namespace

extern const ByOp<Compare, Loop> compare_loops;
const ByOp<Compare, Loop> compare_loops = {{
#define TENDRIL_COMPARE(name, ...)                                                 \
  {compare_loop<Compare::name, float>(),   compare_loop<Compare::name, double>(),  \
   compare_loop<Compare::name, int64_t>(), compare_loop<Compare::name, int32_t>(), \
   compare_loop<Compare::name, uint8_t>(), compare_loop<Compare::name, bool>(),    \
   compare_loop<Compare::name, Half>(),    compare_loop<Compare::name, BFloat16>()},
#include "tendril/tensor/pointwise.def"
}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
