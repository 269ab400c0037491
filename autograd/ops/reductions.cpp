// The rows of tensor/reductions.def, recorded.
#include "tendril/autograd/detail/table.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/drivers/reduction.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using namespace autograd::table;

/// Keeps x, and what is left of its shape.
template <class Derived>
struct ReductionNode : NodeOf<Derived, 1, 1> {
  Dims kept;

  void keep(const Tensor&, const Tensor& x, const Dims& reduced) {
    this->save(0, x);
    kept = reduced;
  }
};

#define TENDRIL_REDUCTION(op, doc, fold, expression, gradient, ...)                  \
  struct op##_backward : ReductionNode<op##_backward> {                              \
    static constexpr auto kText = node_name(#op);                                    \
    static constexpr const char* kName = kText.data();                               \
    void backward(const Tensor& g, std::span<Tensor> dx) {                           \
      const Tensor x = this->saved(0);                                               \
      const DType dtype = computed_in(g.dtype());                                    \
      const Tensor spread = g.reshape(this->kept).expand(x.sizes());                 \
      dx[0] = gradient_of(SeenAs(spread, dtype), SeenAs(x, dtype));                  \
    }                                                                                \
    static Tensor gradient_of(const Tensor& g, const Tensor& x) { return gradient; } \
  };
#include "tendril/tensor/reductions.def"

}  // namespace

#define TENDRIL_REDUCTION(op, ...)                                          \
  Tensor op(const Tensor& x, const Dims& dims, Flag keepdim) {              \
    return drivers::reduce<op##_backward>(Reduction::op, x, dims, keepdim); \
  }
#include "tendril/tensor/reductions.def"

}  // namespace tendril
