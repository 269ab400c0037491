#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/map.cuh"

namespace tendril::cuda {
namespace {

template <Binary op>
struct BinaryFunction;

#define TENDRIL_BINARY(name, doc, dtypes, expression, ...)                                                      \
  template <>                                                                                                   \
  struct BinaryFunction<Binary::name> {                                                                         \
    static constexpr DTypeRule rule = DTypeRule::dtypes;                                                        \
    template <int V, class T>                                                                                   \
    static __device__ void apply(Binary, Lanes<T, V>& out, const Lanes<T, V>& left, const Lanes<T, V>& right) { \
      using namespace std;                                                                                      \
      using namespace scalar_math;                                                                              \
      TENDRIL_UNROLL                                                                                            \
      for (int j = 0; j < V; ++j) {                                                                             \
        const T x = left.at[j], y = right.at[j];                                                                \
        out.at[j] = static_cast<T>(expression);                                                                 \
      }                                                                                                         \
    }                                                                                                           \
  };
#include "tendril/tensor/pointwise.def"

template <Binary op, class T>
constexpr bool serves() {
  return computes_in(BinaryFunction<op>::rule, dtype_of<Compute<T>>);
}

/// Any of them, chosen when it runs (see unary.cu).
struct AnyBinary {
  template <int V, class T>
  static __device__ void apply(Binary op, Lanes<T, V>& out, const Lanes<T, V>& x, const Lanes<T, V>& y) {
    switch (op) {
#define TENDRIL_BINARY(name, ...)                                                                            \
  case Binary::name:                                                                                         \
    if constexpr (serves<Binary::name, T>()) BinaryFunction<Binary::name>::template apply<V>(op, out, x, y); \
    break;
#include "tendril/tensor/pointwise.def"
      case Binary::count_:
        break;
    }
  }
};

template <class T>
using BinaryMap = Map<Binary, T, Input<T>, Input<T>>;

template <Binary op, class T>
constexpr BinaryMap<T> binary_map() {
  if constexpr (!serves<op, T>()) {
    return {};
  } else if constexpr (std::is_integral_v<T>) {
    return map_of<AnyBinary, AnyBinary, kWidth<T>, 2, Binary, T, Input<T>, Input<T>>();
  } else {
    constexpr bool large = op == Binary::pow || op == Binary::atan2 || op == Binary::remainder || op == Binary::fmod;
    constexpr int batch = large ? 1 : 2;  // (see unary.cu)
    return map_of<BinaryFunction<op>, AnyBinary, kWidth<T>, batch, Binary, T, Input<T>, Input<T>>();
  }
}

template <class T>
const BinaryMap<T>& binary_map(Binary op) {
  static constexpr BinaryMap<T> maps[] = {
#define TENDRIL_BINARY(name, ...) binary_map<Binary::name, T>(),
#include "tendril/tensor/pointwise.def"
  };
  return maps[static_cast<int>(op)];
}

}  // namespace

void binary(Binary op, const View& out, const View& x, const View& y) {
  visit(out.dtype, [&](auto tag) {  // (beside a half type, a number may be float32)
    using T = typename decltype(tag)::type;
    const auto& map = binary_map<T>(op);
    if (!map.elements) refuse(name_of(op), out.dtype);
    map(name_of(op), op, out, {&x, &y}, Input<T>(x), Input<T>(y));
  });
}

}  // namespace tendril::cuda
