#include "tendril/autograd/detail/table.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/drivers/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using namespace autograd::table;
using detail::is_fused, detail::mentions;

/// Keeps what the row says, and its number.
template <class Derived, Saves saves, bool has_number>
struct UnaryNode : NodeOf<Derived, 1, saves == kNone ? 0 : 1>, Parameter<has_number> {
  void keep(const Tensor& y, const Tensor& x) {
    if constexpr (saves == kInput) this->save(0, x);
    if constexpr (saves == kOutput) this->save_output(0, y);
  }
  void keep(const Tensor& y, const Tensor& x, double number) {
    keep(y, x);
    this->p = number;
  }
};

// These are scalar_math.h's.
Tensor bounded(const Tensor& x) { return x.clamp(-1000, 1000); }
Tensor root_of_square_and_one(const Tensor& x) {
  return tendril::where(x.abs().gt(1e9), x.abs(), (x * x + 1.0).sqrt());
}
Tensor gelu_tanh_slope(const Tensor& x) {
  const Tensor near = x.clamp(-30, 30), square = near * near;
  const Tensor v = near * (square * 0.07135481627260025 + 1.5957691216057308);
  return v.sigmoid() * (near * (-v).sigmoid() * (square * 0.21406444881780076 + 1.5957691216057308) + 1.0);
}

#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, gradient, fused, ...)                                     \
  static_assert(saves == kNone || is_fused(#fused), #op " saves something and has no fused gradient");              \
  struct op##_backward : UnaryNode<op##_backward, saves, mentions(#expression, 'p')> {                              \
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

}  // namespace

#define TENDRIL_UNARY(op, doc, dtypes, expression, saves, ...) \
  Tensor Tensor::op() const { return drivers::unary<op##_backward>(Unary::op, *this); }
#define TENDRIL_PARAMETRIC(op, doc, dtypes, expression, saves, ...) \
  Tensor Tensor::op(double p) const { return drivers::unary<op##_backward>(Unary::op, *this, p); }
#define TENDRIL_PREDICATE(op, ...) \
  Tensor Tensor::op() const { return raw::predicate(Predicate::op, *this); }
#include "tendril/tensor/pointwise.def"

}  // namespace tendril
