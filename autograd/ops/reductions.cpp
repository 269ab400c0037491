// The rows of tensor/reductions.def, recorded.
#include "tendril/autograd/detail/table.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/drivers/reduction.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using namespace autograd::table;

#define TENDRIL_REDUCTION(op, doc, fold, expression, gradient, ...)                  \
  struct op##_backward : NodeOf<op##_backward, 1, 1> {                               \
    static constexpr auto kText = node_name(#op);                                    \
    static constexpr const char* kName = kText.data();                               \
    Dims kept;                                                                       \
    void backward(const Tensor& g, std::span<Tensor> dx) {                           \
      const Tensor x = saved(0);                                                     \
      const DType dtype = computed_in(g.dtype());                                    \
      const Tensor spread = g.reshape(kept).expand(x.sizes());                       \
      dx[0] = gradient_of(SeenAs(spread, dtype), SeenAs(x, dtype));                  \
    }                                                                                \
    static Tensor gradient_of(const Tensor& g, const Tensor& x) { return gradient; } \
  };
#include "tendril/tensor/reductions.def"

template <class N>
Tensor apply(Reduction op, const Tensor& x, const Dims& dims, bool keepdim) {
  Tensor out = drivers::reduce(op, x, dims, keepdim);
  if (N* n = track<N>(out, x)) {
    n->save(0, x);
    n->kept = drivers::Reduced(x, dims, name_of(op)).kept;
  }
  return out;
}

}  // namespace

#define TENDRIL_REDUCTION(op, ...)                                \
  Tensor op(const Tensor& x, const Dims& dims, bool keepdim) {    \
    return apply<op##_backward>(Reduction::op, x, dims, keepdim); \
  }
#include "tendril/tensor/reductions.def"

}  // namespace tendril
