#include "tendril/autograd/detail/table.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using namespace autograd::table;

#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, gradient, ...)                                             \
  struct op##_backward : NodeOf<op##_backward, 1, saves == kNone ? 0 : 1> {                                          \
    static constexpr auto kText = node_name(#op);                                                                    \
    static constexpr const char* kName = kText.data();                                                               \
    void backward(const Tensor& g, std::span<Tensor> dx) {                                                           \
      [[maybe_unused]] const DType dtype = computed_in(g.dtype());                                                   \
      if constexpr (saves == kInput) {                                                                               \
        const Tensor kept = saved(0);                                                                                \
        const SeenAs x(kept, dtype);                                                                                 \
        dx[0] = gradient_of(SeenAs(g, dtype), x, x);                                                                 \
      } else if constexpr (saves == kOutput) {                                                                       \
        const Tensor kept = saved(0);                                                                                \
        const SeenAs y(kept, dtype);                                                                                 \
        dx[0] = gradient_of(SeenAs(g, dtype), y, y);                                                                 \
      } else {                                                                                                       \
        dx[0] = gradient_of(g, g, g);                                                                                \
      }                                                                                                              \
    }                                                                                                                \
    static Tensor gradient_of(const Tensor& g, [[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y) { \
      return gradient;                                                                                               \
    }                                                                                                                \
  };
#include "tendril/tensor/pointwise.def"

template <class N, Saves saves>
Tensor apply(Unary op, const Tensor& x) {
  Tensor y = raw::unary(op, x);
  if (N* n = track<N>(y, x)) {
    if constexpr (saves == kInput) n->save(0, x);
    if constexpr (saves == kOutput) n->save_output(0, y);
  }
  return y;
}

}  // namespace

#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, ...) \
  Tensor Tensor::op() const { return apply<op##_backward, saves>(Unary::op, *this); }
#define TENDRIL_PREDICATE(op, ...) \
  Tensor Tensor::op() const { return raw::predicate(Predicate::op, *this); }
#include "tendril/tensor/pointwise.def"

}  // namespace tendril
