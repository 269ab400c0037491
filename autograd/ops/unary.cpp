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
using detail::is_fused, detail::mentions;

/// Whether the gradient may be overwritten: the node alone refers to it, and shows it to no hook afterwards. Not on a
/// device, where another stream may still be copying what nobody refers to any more.
bool is_nobody_elses(const Tensor& g, const autograd::Node& node) {
  return g.device().is_cpu() && autograd::uniquely_owned(g) && !node.hooks();
}

/// scalar_math.h's.
Tensor gelu_tanh_exponent(const Tensor& x) { return x * (x * x * 0.07135481627260025 + 1.5957691216057308); }

#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, gradient, fused, ...)                                     \
  static_assert(saves == kNone || is_fused(#fused), #op " saves something and has no fused gradient");              \
  struct op##_backward : NodeOf<op##_backward, 1, saves == kNone ? 0 : 1>, Parameter<mentions(#expression, 'p')> {  \
    static constexpr auto kText = node_name(#op);                                                                   \
    static constexpr const char* kName = kText.data();                                                              \
    void backward(const Tensor& g, std::span<Tensor> dx) {                                                          \
      if constexpr (saves == kNone) {                                                                               \
        dx[0] = gradient_of(g, g, g);                                                                               \
      } else {                                                                                                      \
        const Tensor kept = saved(0);                                                                               \
        if (!autograd::grad_enabled()) {                                                                            \
          dx[0] = raw::unary_gradient(Unary::op, g, kept, p, is_nobody_elses(g, *this));                            \
          return;                                                                                                   \
        }                                                                                                           \
        const DType dtype = computed_in(g.dtype());                                                                 \
        const SeenAs v(kept, dtype);                                                                                \
        dx[0] = gradient_of(SeenAs(g, dtype), v, v);                                                                \
      }                                                                                                             \
    }                                                                                                               \
    Tensor gradient_of(const Tensor& g, [[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y) const { \
      return gradient;                                                                                              \
    }                                                                                                               \
  };
#include "tendril/tensor/pointwise.def"

template <class N, Saves saves>
N* record(const Tensor& y, const Tensor& x) {
  N* n = track<N>(y, x);
  if (n) {
    if constexpr (saves == kInput) n->save(0, x);
    if constexpr (saves == kOutput) n->save_output(0, y);
  }
  return n;
}

template <class N, Saves saves>
Tensor apply(Unary op, const Tensor& x) {
  Tensor y = raw::unary(op, x);
  record<N, saves>(y, x);
  return y;
}

template <class N, Saves saves>
Tensor apply(Unary op, const Tensor& x, double p) {
  Tensor y = raw::unary(op, x, p);
  if (N* n = record<N, saves>(y, x)) n->p = p;
  return y;
}

}  // namespace

#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, ...) \
  Tensor Tensor::op() const { return apply<op##_backward, saves>(Unary::op, *this); }
#define TENDRIL_PARAMETRIC(op, doc, dtypes, expression, saves, ...) \
  Tensor Tensor::op(double p) const { return apply<op##_backward, saves>(Unary::op, *this, p); }
#define TENDRIL_PREDICATE(op, ...) \
  Tensor Tensor::op() const { return raw::predicate(Predicate::op, *this); }
#include "tendril/tensor/pointwise.def"

}  // namespace tendril
