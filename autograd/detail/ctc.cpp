#include "tendril/autograd/detail/ctc.h"

#include <cmath>

#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd::detail {

namespace {

/// The logarithm of what cannot be. Finite: a log_sum_exp of nothing but -infinity has no derivative.
constexpr double kNever = -1e30;

template <class Values>
Tensor placed(const Values& values, const Dims& sizes, Device device) {
  return raw::to(raw::from_data(values, sizes), device);
}

Tensor never(const Tensor& where_not, const Tensor& x) { return x.masked_fill(where_not, kNever); }

/// The logarithms of the paper's forward variables, and what the backward ones are made of as well.
struct Forward {
  Forward(const Tensor& x, const CtcPlan& plan);

  Dims all;                   ///< [batch, states]
  Tensor classes;             ///< [steps, batch, states]
  Tensor skips;               ///< [batch, states]
  Tensor lengths;             ///< [batch, 1]
  Tensor probs;               ///< of each state's class, like classes
  Tensor nothing;             ///< [batch, 2] of kNever, for what is beside the states
  std::vector<Tensor> alpha;  ///< [batch, states] for each step, those of the last one from there on
  Tensor loss;                ///< [batch]; above -kNever / 10 where the target cannot be
};

Forward::Forward(const Tensor& x, const CtcPlan& plan) : all{plan.batch, plan.states} {
  classes =
      raw::expand(raw::unsqueeze(placed(plan.classes, all, x.device()), 0), {plan.steps, plan.batch, plan.states});
  skips = placed(plan.skips, all, x.device());
  lengths = raw::unsqueeze(placed(plan.input_lengths, {plan.batch}, x.device()), 1);
  probs = x.gather(2, classes).clamp(kNever, {});
  nothing = raw::full({plan.batch, 2}, kNever, x.dtype(), x.device());
  const Tensor no_skip = skips.logical_not();
  alpha.push_back(never(placed(plan.starts, all, x.device()).logical_not(), probs.select(0, 0)));
  for (int64_t t = 1; t < plan.steps; ++t) {
    const Tensor& before = alpha.back();
    const Tensor shifted = cat({nothing, before}, 1);
    const Tensor come =
        stack({before, shifted.narrow(1, 1, plan.states), never(no_skip, shifted.narrow(1, 0, plan.states))}, 2)
            .logsumexp(2);
    alpha.push_back(where(lengths.gt(t), probs.select(0, t) + come, before));
  }
  const Tensor ends = alpha.back().gather(1, placed(plan.ends, {plan.batch, 2}, x.device()));
  const Tensor no_labels = placed(plan.has_labels, {plan.batch}, x.device()).logical_not();
  loss = -stack({ends.select(1, 0), never(no_labels, ends.select(1, 1))}, 1).logsumexp(1);
}

}  // namespace

Tensor ctc_losses(const Tensor& x, const CtcPlan& plan) {
  const Tensor loss = Forward(x, plan).loss;
  const Tensor possible = where(loss.detach().gt(-kNever / 10), HUGE_VAL, loss);
  const Tensor if_empty = raw::cast(placed(plan.infinite_if_empty, {plan.batch}, x.device()), x.dtype());
  return where(placed(plan.empty_input, {plan.batch}, x.device()), if_empty, possible);
}

/// Of class k at step t, -(the share of the paths in which it stands there).
Tensor ctc_gradient(const Tensor& x, const Tensor& g, const CtcPlan& plan) {
  const Forward f(x, plan);
  const Tensor blanks = raw::zeros({plan.batch, 2}, kBool, x.device());
  const Tensor no_skip = raw::narrow(cat({f.skips, blanks}, 1), 1, 2, plan.states).logical_not();  // from here on
  // A path ends in the last blank or, where there are labels, the last label: elsewhere both are that blank.
  const Tensor ends = placed(plan.ends, {plan.batch, 2}, x.device());
  const Tensor last = raw::full(f.all, kNever, x.dtype(), x.device()).scatter(1, ends, 0);
  const Tensor loss = f.loss.unsqueeze(1);
  const Tensor impossible = loss.detach().gt(-kNever / 10);
  std::vector<Tensor> shares(static_cast<std::size_t>(plan.steps));
  Tensor beta = last;
  for (int64_t t = plan.steps - 1; t >= 0; --t) {
    if (t + 1 < plan.steps) {
      const Tensor later = beta + f.probs.select(0, t + 1);
      const Tensor shifted = cat({later, f.nothing}, 1);
      const Tensor go =
          stack({later, shifted.narrow(1, 1, plan.states), never(no_skip, shifted.narrow(1, 2, plan.states))}, 2)
              .logsumexp(2);
      beta = where(f.lengths.gt(t + 1), go, last);
    }
    const Tensor outside = impossible.logical_or(f.lengths.le(t));
    shares[static_cast<std::size_t>(t)] = never(outside, f.alpha[static_cast<std::size_t>(t)] + beta + loss).exp();
  }
  const Tensor of_states = stack(shares, 0) * g.unsqueeze(1);
  return raw::zeros(x.sizes(), x.dtype(), x.device()).scatter_add(2, raw::contiguous(f.classes), -of_states);
}

}  // namespace tendril::autograd::detail
