#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"
#include "tendril/tensor/cuda/kernels/unary_call.h"
#include "tendril/tensor/detail/columns.h"

/// The fused gradients of the table.
namespace tendril::cuda {
namespace {

template <Unary op>
struct UnaryGradient;
template <Binary op, int operand>
struct BinaryGradient;

// What was kept is x in some rows and y in others.
#define TENDRIL_UNARY(name, doc, dtypes, expression, saves, gradient, fused, ...)   \
  template <>                                                                       \
  struct UnaryGradient<Unary::name> {                                               \
    static constexpr bool exists = tendril::detail::is_fused(#fused);               \
    template <int V, class T>                                                       \
    static __device__ void apply([[maybe_unused]] UnaryCall call, Lanes<T, V>& out, \
                                 [[maybe_unused]] const Lanes<T, V>& given,         \
                                 [[maybe_unused]] const Lanes<T, V>& kept) {        \
      using namespace std;                                                          \
      using namespace scalar_math;                                                  \
      [[maybe_unused]] const T p = static_cast<T>(call.p);                          \
      TENDRIL_UNROLL                                                                \
      for (int j = 0; j < V; ++j) {                                                 \
        [[maybe_unused]] const T g = given.at[j], x = kept.at[j], y = x;            \
        out.at[j] = static_cast<T>(fused);                                          \
      }                                                                             \
    }                                                                               \
  };
#define TENDRIL_GRADIENT_OF(name, operand, fused)                                                     \
  template <>                                                                                         \
  struct BinaryGradient<Binary::name, operand> {                                                      \
    static constexpr bool exists = tendril::detail::is_fused(#fused);                                 \
    template <int V, class T>                                                                         \
    static __device__ void apply(Binary, Lanes<T, V>& out, [[maybe_unused]] const Lanes<T, V>& given, \
                                 [[maybe_unused]] const Lanes<T, V>& left,                            \
                                 [[maybe_unused]] const Lanes<T, V>& right) {                         \
      using namespace std;                                                                            \
      using namespace scalar_math;                                                                    \
      TENDRIL_UNROLL                                                                                  \
      for (int j = 0; j < V; ++j) {                                                                   \
        [[maybe_unused]] const T g = given.at[j], x = left.at[j], y = right.at[j];                    \
        out.at[j] = static_cast<T>(fused);                                                            \
      }                                                                                               \
    }                                                                                                 \
  };
#define TENDRIL_BINARY(name, doc, dtypes, expression, saves, gradient_x, gradient_y, fused_x, fused_y, ...) \
  TENDRIL_GRADIENT_OF(name, 0, fused_x)                                                                     \
  TENDRIL_GRADIENT_OF(name, 1, fused_y)
#include "tendril/tensor/pointwise.def"
#undef TENDRIL_GRADIENT_OF

template <class T>
using UnaryMap = Map<UnaryCall, T, Input<T>, Input<T>>;
template <class T>
using BinaryMap = Map<Binary, T, Input<T>, Input<T>, Input<T>>;

template <Unary op, class T>
constexpr UnaryMap<T> unary_map() {
  using F = UnaryGradient<op>;
  if constexpr (F::exists) {
    return map_of<F, F, kWidth<T>, 1, UnaryCall, T, Input<T>, Input<T>>();
  } else {
    return {};
  }
}
template <Binary op, int operand, class T>
constexpr BinaryMap<T> binary_map() {
  using F = BinaryGradient<op, operand>;
  if constexpr (F::exists) {
    return map_of<F, F, kWidth<T>, 1, Binary, T, Input<T>, Input<T>, Input<T>>();
  } else {
    return {};
  }
}

}  // namespace

void unary_gradient(Unary op, const View& out, const View& g, const View& kept, double p) {
  visit_floating(name_of(op), out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    static constexpr UnaryMap<T> maps[] = {
#define TENDRIL_UNARY(name, ...) unary_map<Unary::name, T>(),
#include "tendril/tensor/pointwise.def"
    };
    const auto& map = maps[static_cast<int>(op)];
    if (!map.elements) refuse(name_of(op), out.dtype);
    map(name_of(op), {op, p}, out, {&g, &kept}, Input<T>(g), Input<T>(kept));
  });
}

void binary_gradient(Binary op, int operand, const View& out, const View& g, const View& x, const View& y) {
  visit_floating(name_of(op), out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    static constexpr BinaryMap<T> maps[][2] = {
#define TENDRIL_BINARY(name, ...) {binary_map<Binary::name, 0, T>(), binary_map<Binary::name, 1, T>()},
#include "tendril/tensor/pointwise.def"
    };
    const auto& map = maps[static_cast<int>(op)][operand];
    if (!map.elements) refuse(name_of(op), out.dtype);
    map(name_of(op), op, out, {&g, &x, &y}, Input<T>(g), Input<T>(x), Input<T>(y));
  });
}

}  // namespace tendril::cuda
