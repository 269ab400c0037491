#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"

/// Pointwise functions with a bool result.
namespace tendril::cuda {
namespace {

struct AnyPredicate {
  template <int V, class T>
  static __device__ void apply(Predicate op, Lanes<bool, V>& out, const Lanes<T, V>& in) {
    using namespace scalar_math;
    switch (op) {
#define TENDRIL_PREDICATE(name, doc, expression) \
  case Predicate::name:                          \
    TENDRIL_UNROLL                               \
    for (int j = 0; j < V; ++j) {                \
      [[maybe_unused]] const T x = in.at[j];     \
      out.at[j] = expression;                    \
    }                                            \
    break;
#include "tendril/tensor/pointwise.def"
      case Predicate::count_:
        break;
    }
  }
};

struct AnyCompare {
  template <int V, class T>
  static __device__ void apply(Compare op, Lanes<bool, V>& out, const Lanes<T, V>& left, const Lanes<T, V>& right) {
    switch (op) {
#define TENDRIL_COMPARE(name, doc, expression) \
  case Compare::name:                          \
    TENDRIL_UNROLL                             \
    for (int j = 0; j < V; ++j) {              \
      const T x = left.at[j], y = right.at[j]; \
      out.at[j] = expression;                  \
    }                                          \
    break;
#include "tendril/tensor/pointwise.def"
      case Compare::count_:
        break;
    }
  }
};

}  // namespace

void predicate(Predicate op, const View& out, const View& x) {
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr auto map = map_of<AnyPredicate, AnyPredicate, kWidth<T>, 2, Predicate, bool, Input<T>>();
    map(name_of(op), op, out, {&x}, Input<T>(x));
  });
}

void compare(Compare op, const View& out, const View& x, const View& y) {
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr auto map = map_of<AnyCompare, AnyCompare, kWidth<T>, 2, Compare, bool, Input<T>, Input<T>>();
    map(name_of(op), op, out, {&x, &y}, Input<T>(x), Input<T>(y));
  });
}

}  // namespace tendril::cuda
