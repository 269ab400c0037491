#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/reduce.cuh"

namespace tendril::cuda {

void reduce_other(Reduction op, const View& out, const View& x) {
  if (out.numel == 0) return;
  visit(x.dtype, [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    fold<T>(name_of(op), out, x, OtherFold(op, x.dtype == kBool));
  });
}

void reduce(Reduction op, const View& out, const View& x) {
  const bool logical = x.dtype == kBool;
  switch (op) {
    case Reduction::sum:
      return reduce_sum(out, x);
    case Reduction::prod:
      if (logical) refuse("prod", x.dtype);
      return reduce_other(op, out, x);
    case Reduction::max:
    case Reduction::min:
      return reduce_other(op, out, x);
    case Reduction::all:  // of 0 and 1, all is the smallest and any the largest
    case Reduction::any:
      if (!logical) refuse(name_of(op), x.dtype);
      return reduce_other(op == Reduction::all ? Reduction::min : Reduction::max, out, x);
    default:
      return reduce_function(op, out, x);
  }
}

}  // namespace tendril::cuda
