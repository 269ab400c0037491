#include "tendril/tensor/cuda/kernels/kernel.cuh"
#include "tendril/tensor/cuda/kernels/reduce.cuh"

namespace tendril::cuda {

void reduce_sum(const View& out, const View& x) {
  if (out.numel == 0) return;
  visit(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) {
      refuse("sum", x.dtype);
    } else {
      fold<T>("sum", out, x, SumOf{});
    }
  });
}

}  // namespace tendril::cuda
