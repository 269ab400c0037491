#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"
#include "tendril/tensor/cuda/kernels/unary_call.h"

namespace tendril::cuda {
namespace {

template <Unary op>
struct UnaryFunction;

// The table's expressions call std functions and scalar_math by plain name.
#define TENDRIL_UNARY(name, doc, dtypes, expression, ...)                                   \
  template <>                                                                               \
  struct UnaryFunction<Unary::name> {                                                       \
    static constexpr DTypeRule rule = DTypeRule::dtypes;                                    \
    template <int V, class T>                                                               \
    static __device__ void apply(UnaryCall call, Lanes<T, V>& out, const Lanes<T, V>& in) { \
      using namespace std;                                                                  \
      using namespace scalar_math;                                                          \
      [[maybe_unused]] const T p = static_cast<T>(call.p);                                  \
      TENDRIL_UNROLL                                                                        \
      for (int j = 0; j < V; ++j) {                                                         \
        const T x = in.at[j];                                                               \
        out.at[j] = static_cast<T>(expression);                                             \
      }                                                                                     \
    }                                                                                       \
  };
#include "tendril/tensor/pointwise.def"

template <Unary op, class T>
constexpr bool serves() {
  return std::is_floating_point_v<Compute<T>> ||
         (UnaryFunction<op>::rule != DTypeRule::kFloat && !std::is_same_v<T, bool>);
}

/// Any of them, chosen when it runs: every thread takes the same branch, and what waits for memory has time for it.
struct AnyUnary {
  template <int V, class T>
  static __device__ void apply(UnaryCall call, Lanes<T, V>& out, const Lanes<T, V>& x) {
    switch (call.op) {
#define TENDRIL_UNARY(name, ...)                                                                         \
  case Unary::name:                                                                                      \
    if constexpr (serves<Unary::name, T>()) UnaryFunction<Unary::name>::template apply<V>(call, out, x); \
    break;
#include "tendril/tensor/pointwise.def"
      case Unary::count_:
        break;
    }
  }
};

template <class T>
using UnaryMap = Map<UnaryCall, T, Input<T>>;

template <Unary op, class T>
constexpr UnaryMap<T> unary_map() {
  if constexpr (!serves<op, T>()) {
    return {};
  } else if constexpr (std::is_integral_v<T>) {
    return map_of<AnyUnary, AnyUnary, kWidth<T>, 2, UnaryCall, T, Input<T>>();
  } else {
    // Two vectors a thread where there is little to compute; where there is much, the registers are worth more.
    constexpr bool brief = UnaryFunction<op>::rule != DTypeRule::kFloat || op == Unary::reciprocal ||
                           op == Unary::sqrt || op == Unary::rsqrt;
    constexpr int batch = brief ? 2 : 1;
    return map_of<UnaryFunction<op>, AnyUnary, kWidth<T>, batch, UnaryCall, T, Input<T>>();
  }
}

template <class T>
const UnaryMap<T>& unary_map(Unary op) {
  static constexpr UnaryMap<T> maps[] = {
#define TENDRIL_UNARY(name, ...) unary_map<Unary::name, T>(),
#include "tendril/tensor/pointwise.def"
  };
  return maps[static_cast<int>(op)];
}

}  // namespace

void unary(Unary op, const View& out, const View& x, double p) {
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto& map = unary_map<T>(op);
    if (!map.elements) refuse(name_of(op), x.dtype);
    map(name_of(op), {op, p}, out, {&x}, Input<T>(x));
  });
}

}  // namespace tendril::cuda
