#include "tendril/tensor/cpu/level/halves.h"
#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/detail/columns.h"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cpu::TENDRIL_CPU_LEVEL {
namespace {

template <class T>
Compute<T> load(const T* p) {
  return static_cast<Compute<T>>(*p);
}

template <Unary op, class T>
struct UnaryFunction;
template <Predicate op, class T>
struct PredicateFunction;

// The table's expressions call std functions and scalar_math by plain name.
#define TENDRIL_UNARY(name, doc, dtypes, expression, ...)                              \
  template <class T>                                                                   \
  struct UnaryFunction<Unary::name, T> {                                               \
    static constexpr DTypeRule rule = DTypeRule::dtypes;                               \
    static constexpr bool has_parameter = tendril::detail::mentions(#expression, 'p'); \
    T p = T(0);                                                                        \
    T operator()(T x) const {                                                          \
      using namespace std;                                                             \
      using namespace scalar_math;                                                     \
      return static_cast<T>(expression);                                               \
    }                                                                                  \
  };
#define TENDRIL_PREDICATE(name, doc, expression) \
  template <class T>                             \
  struct PredicateFunction<Predicate::name, T> { \
    static constexpr bool has_parameter = false; \
    bool operator()(T x) const {                 \
      using namespace scalar_math;               \
      return expression;                         \
    }                                            \
  };
#include "tendril/tensor/pointwise.def"

template <class F, class Out, class T>
void map(char* const* pointers, const int64_t* steps, int64_t count) {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, Half>) {
    if (by_float<1, F::has_parameter, Out>(map<F, Compute<Out>, float>, pointers, steps, count)) return;
  }
  F f;
  if constexpr (F::has_parameter) f.p = static_cast<C>(*reinterpret_cast<const double*>(pointers[2]));
  if (steps[0] == sizeof(Out) && steps[1] == sizeof(T)) {
    Out* out = reinterpret_cast<Out*>(pointers[0]);
    const T* x = reinterpret_cast<const T*>(pointers[1]);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(f(static_cast<C>(x[i])));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto x = load(reinterpret_cast<const T*>(pointers[1] + i * steps[1]));
    *reinterpret_cast<Out*>(pointers[0] + i * steps[0]) = static_cast<Out>(f(x));
  }
}

template <Unary op, class T>
constexpr Loop unary_loop() {
  using F = UnaryFunction<op, Compute<T>>;
  constexpr bool floating = std::is_floating_point_v<Compute<T>>;
  if constexpr (floating || (F::rule != DTypeRule::kFloat && !std::is_same_v<T, bool>)) {
    return map<F, T, T>;
  } else {
    return nullptr;
  }
}

}  // namespace

extern const ByOp<Unary, Loop> unary_loops;
const ByOp<Unary, Loop> unary_loops = {{
#define TENDRIL_UNARY(name, ...)                                                                               \
  {unary_loop<Unary::name, float>(),   unary_loop<Unary::name, double>(),  unary_loop<Unary::name, int64_t>(), \
   unary_loop<Unary::name, int32_t>(), unary_loop<Unary::name, uint8_t>(), unary_loop<Unary::name, bool>(),    \
   unary_loop<Unary::name, Half>(),    unary_loop<Unary::name, BFloat16>()},
#include "tendril/tensor/pointwise.def"
}};

namespace {
template <Predicate op, class T>
constexpr Loop predicate_loop() {
  return map<PredicateFunction<op, Compute<T>>, bool, T>;
}
}  // namespace

extern const ByOp<Predicate, Loop> predicate_loops;
const ByOp<Predicate, Loop> predicate_loops = {{
#define TENDRIL_PREDICATE(name, ...)                                                       \
  {predicate_loop<Predicate::name, float>(),   predicate_loop<Predicate::name, double>(),  \
   predicate_loop<Predicate::name, int64_t>(), predicate_loop<Predicate::name, int32_t>(), \
   predicate_loop<Predicate::name, uint8_t>(), predicate_loop<Predicate::name, bool>(),    \
   predicate_loop<Predicate::name, Half>(),    predicate_loop<Predicate::name, BFloat16>()},
#include "tendril/tensor/pointwise.def"
}};

}  // namespace tendril::cpu::TENDRIL_CPU_LEVEL
