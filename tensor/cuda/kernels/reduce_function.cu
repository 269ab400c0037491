#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/reduce.cuh"
#include "tendril/tensor/scalar_math.h"

namespace tendril::cuda {
namespace {

/// Any row of reductions.def, chosen when it runs: memory is slower than looking.
struct FunctionFold {
  Reduction op;
  OtherFold other;

  template <class A, class C>
  constexpr A of(C given) const {
    using namespace std;
    using namespace scalar_math;
    using T = C;
    [[maybe_unused]] const T x = given;
    switch (op) {
#define TENDRIL_REDUCTION(name, doc, fold, expression, ...) \
  case Reduction::name:                                     \
    return static_cast<A>(static_cast<T>(expression));
#include "tendril/tensor/reductions.def"
      default:
        return A(0);
    }
  }
  template <class A, class T>
  constexpr A identity() const {
    return other.op == Reduction::sum ? A(0) : other.identity<A, T>();
  }
  template <class A>
  constexpr A operator()(A a, A x) const {
    return other.op == Reduction::sum ? SumOf{}(a, x) : other(a, x);
  }
};

}  // namespace

void reduce_function(Reduction op, const View& out, const View& x) {
  if (out.numel == 0) return;
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && sizeof(T) < 8) {  // as on the CPU: they are int64 before they come here
      refuse(name_of(op), x.dtype);
    } else {
      const Reduction with = fold_of(op);
      const FunctionFold function{op, OtherFold(with, false)};
      if (with == Reduction::sum) return fold<T>(name_of(op), out, x, function, SumOf{});
      fold<T>(name_of(op), out, x, function, OtherFold(with, false));
    }
  });
}

}  // namespace tendril::cuda
