#include "tendril/autograd/ops/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/ctc.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::detail::CtcPlan;

constexpr const char* kCtc = "ctc_loss";

std::vector<int64_t> integers(const Tensor& x, const char* name) {
  detail::check_defined(x, kCtc, name);
  TENDRIL_CHECK_AS(DTypeError, x.dtype() == kInt64 || x.dtype() == kInt32, kCtc, ": ", name, " is ", x.dtype(),
                   ", expected int64 or int32");
  return x.to_vector<int64_t>();
}

CtcPlan plan_of(const Tensor& log_probs, const Tensor& targets, const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcLossOptions& options) {
  const int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  TENDRIL_CHECK_AS(IndexError, options.blank >= 0 && options.blank < classes, kCtc, ": blank: got ", options.blank,
                   ", expected a class in [0, ", classes, ")");
  const auto count = static_cast<std::size_t>(batch);
  TENDRIL_CHECK_AS(ShapeError, input_lengths.size() == count && target_lengths.size() == count, kCtc, ": got ",
                   input_lengths.size(), " input_lengths and ", target_lengths.size(), " target_lengths, expected ",
                   batch, " of both");
  const std::vector<int64_t> labels = integers(targets, "targets");
  const bool side_by_side = targets.dim() == 2;
  int64_t longest = 0, sum = 0;
  for (std::size_t n = 0; n < count; ++n) {
    TENDRIL_CHECK(input_lengths[n] >= 0 && input_lengths[n] <= steps, kCtc, ": input_lengths[", n, "]: got ",
                  input_lengths[n], ", expected a number of 0 or more, at most the steps, ", steps);
    TENDRIL_CHECK(target_lengths[n] >= 0, kCtc, ": target_lengths[", n, "]: got ", target_lengths[n],
                  ", expected a number of 0 or more");
    longest = std::max(longest, target_lengths[n]);
    sum += target_lengths[n];
  }
  TENDRIL_CHECK_AS(ShapeError,
                   side_by_side ? targets.size(0) == batch && targets.size(1) >= longest
                                : targets.dim() == 1 && targets.numel() == sum,
                   kCtc, ": targets have shape ", targets.sizes(), ", expected [", batch, ", at least ", longest,
                   "], or [", sum, "], the sum of target_lengths");
  CtcPlan plan{steps, batch, 2 * longest + 1, input_lengths, {}, {}, {}, {}, {}, {}, {}};
  int64_t row = 0;
  for (std::size_t n = 0; n < count; ++n) {
    const int64_t length = target_lengths[n];
    const auto label = [&](int64_t i) { return labels[static_cast<std::size_t>(row + i)]; };
    for (int64_t i = 0; i < length; ++i) {
      TENDRIL_CHECK_AS(IndexError, label(i) >= 0 && label(i) < classes && label(i) != options.blank, kCtc,
                       ": targets: label ", i, " of target ", n, " is ", label(i), ", expected a class in [0, ",
                       classes, ") that is not the blank, ", options.blank);
    }
    for (int64_t s = 0; s < plan.states; ++s) {
      const bool is_label = s % 2 == 1 && s / 2 < length;
      plan.classes.push_back(is_label ? label(s / 2) : options.blank);
      plan.starts.push_back(s == 0 || (s == 1 && length > 0));
      plan.skips.push_back(is_label && s > 1 && label(s / 2) != label(s / 2 - 1));
    }
    plan.ends.push_back(2 * length);
    plan.ends.push_back(std::max<int64_t>(2 * length - 1, 0));
    plan.has_labels.push_back(length > 0);
    plan.empty_input.push_back(input_lengths[n] == 0);
    plan.infinite_if_empty.push_back(length > 0 ? HUGE_VAL : 0);
    row += side_by_side ? targets.size(1) : length;
  }
  return plan;
}

// ---- on the CPU: a pass forward, which keeps the logarithms of the paper's forward variables, and one back

double log_sum_exp(double a, double b, double c) {
  const double most = std::max(a, std::max(b, c));
  if (most == -HUGE_VAL) return a + b + c;  // of nothing, or a NaN
  const auto part = [most](double x) { return x == most ? 1 : x == -HUGE_VAL ? 0 : std::exp(x - most); };
  return most + std::log(part(a) + part(b) + part(c));
}

/// One sequence: where its rows are, and what of the plan is its.
struct CtcLine {
  CtcLine(const CtcPlan& given, int64_t n)
      : plan(given),
        steps(given.input_lengths[static_cast<std::size_t>(n)]),
        row(static_cast<std::size_t>(n * given.states)),
        last(given.ends[static_cast<std::size_t>(2 * n)]),
        before_last(given.has_labels[static_cast<std::size_t>(n)] ? given.ends[static_cast<std::size_t>(2 * n + 1)]
                                                                  : -1) {}
  int64_t label(int64_t s) const { return plan.classes[row + static_cast<std::size_t>(s)]; }
  bool starts(int64_t s) const { return plan.starts[row + static_cast<std::size_t>(s)]; }
  bool skips(int64_t s) const { return plan.skips[row + static_cast<std::size_t>(s)]; }
  /// log p of the target, of the forward variables of the last step.
  double log_p(const double* alpha) const {
    return log_sum_exp(alpha[last], before_last < 0 ? -HUGE_VAL : alpha[before_last], -HUGE_VAL);
  }

  const CtcPlan& plan;
  int64_t steps;
  std::size_t row;
  int64_t last, before_last;  ///< states in which a path may end; before_last is -1 without labels
};

/// `x` is [steps, batch, classes], `alpha` [batch, steps, states].
template <class T>
void forward_variables(const CtcPlan& plan, int64_t n, const T* x, int64_t classes, double* alpha) {
  const CtcLine line(plan, n);
  for (int64_t t = 0; t < line.steps; ++t, alpha += plan.states) {
    const T* const p = x + (t * plan.batch + n) * classes;
    const double* const before = alpha - plan.states;
    for (int64_t s = 0; s <= line.last; ++s) {
      const double come =
          t == 0 ? (line.starts(s) ? 0 : -HUGE_VAL)
                 : log_sum_exp(before[s], s > 0 ? before[s - 1] : -HUGE_VAL, line.skips(s) ? before[s - 2] : -HUGE_VAL);
      alpha[s] = come + static_cast<double>(p[line.label(s)]);
    }
  }
}

int64_t row_of(const CtcPlan& plan) { return plan.states + 2; }

/// Adds g times the gradient to dx, which is like x: of class k at step t, -(the share of the paths in which it stands
/// there), which forward and backward variables give (the paper's equations 14 and 15). `room` is for two rows of
/// states and what is beside them.
template <class T>
void backward_variables(const CtcPlan& plan, int64_t n, const T* x, int64_t classes, const double* alpha, double g,
                        T* dx, double* room) {
  const CtcLine line(plan, n);
  if (line.steps == 0) return;
  const double log_p = line.log_p(alpha + (line.steps - 1) * plan.states);
  if (log_p == -HUGE_VAL) return;                     // of an infinite loss no gradient comes
  double *later = room, *here = room + row_of(plan);  // beta, times p of its own state
  std::fill_n(room, 2 * row_of(plan), -HUGE_VAL);
  for (int64_t t = line.steps - 1; t >= 0; --t) {
    const T* const p = x + (t * plan.batch + n) * classes;
    T* const d = dx + (t * plan.batch + n) * classes;
    for (int64_t s = line.last; s >= 0; --s) {
      const bool ends = s == line.last || s == line.before_last;
      const double go =
          t == line.steps - 1
              ? (ends ? 0 : -HUGE_VAL)
              : log_sum_exp(later[s], later[s + 1], s + 2 <= line.last && line.skips(s + 2) ? later[s + 2] : -HUGE_VAL);
      here[s] = go + static_cast<double>(p[line.label(s)]);
      const double path = alpha[t * plan.states + s] + go;
      if (path != -HUGE_VAL) d[line.label(s)] -= static_cast<T>(g * std::exp(path - log_p));
    }
    std::swap(later, here);
  }
}

using CtcPlanPtr = std::shared_ptr<const CtcPlan>;

struct CtcLossBackward : autograd::NodeOf<CtcLossBackward, 1, 2> {
  static constexpr const char* kName = "CtcLossBackward";
  CtcPlanPtr plan;

  void backward(const Tensor& given, std::span<Tensor> dx) {
    const Tensor x = saved(0);
    if (autograd::grad_enabled()) {
      dx[0] = autograd::detail::ctc_gradient(x, given, *plan);
      return;
    }
    const Tensor rows = raw::contiguous(x), alpha = saved(1);
    const std::vector<double> g = given.to_vector<double>();
    dx[0] = raw::zeros(x.sizes(), x.dtype(), x.device());
    const Tensor rooms = raw::empty({plan->batch, 2, row_of(*plan)}, kFloat64, x.device());  // none may fail below
    const int64_t classes = x.size(2);
    const auto run = [&](auto tag) {
      using T = decltype(tag);
      const T* const from = rows.template data<T>();
      T* const to = dx[0].template mutable_data<T>();
      const double* const kept = alpha.data<double>();
      double* const room = rooms.mutable_data<double>();
      cpu::parallel_for(plan->batch, cpu::grain_of(plan->steps * plan->states * 16), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          backward_variables(*plan, n, from, classes, kept + n * plan->steps * plan->states,
                             g[static_cast<std::size_t>(n)], to, room + n * 2 * row_of(*plan));
        }
      });
    };
    x.dtype() == kFloat64 ? run(double{}) : run(float{});
  }
};

/// -log p of each target, [N].
Tensor each_loss(const Tensor& x, const CtcPlanPtr& plan) {
  if (!x.device().is_cpu()) return autograd::detail::ctc_losses(x, *plan);
  const Tensor rows = raw::contiguous(x);
  Tensor out = raw::empty({plan->batch}, x.dtype(), x.device());
  const Tensor alpha = raw::full({plan->batch, plan->steps, plan->states}, -HUGE_VAL, kFloat64, x.device());
  const int64_t classes = x.size(2);
  const auto run = [&](auto tag) {
    using T = decltype(tag);
    const T* const from = rows.template data<T>();
    T* const to = out.template mutable_data<T>();
    double* const kept = alpha.mutable_data<double>();
    cpu::parallel_for(plan->batch, cpu::grain_of(plan->steps * plan->states * 16), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const auto i = static_cast<std::size_t>(n);
        double* const own = kept + n * plan->steps * plan->states;
        forward_variables(*plan, n, from, classes, own);
        const CtcLine line(*plan, n);
        to[n] = static_cast<T>(line.steps == 0 ? plan->infinite_if_empty[i]
                                               : -line.log_p(own + (line.steps - 1) * plan->states));
      }
    });
  };
  x.dtype() == kFloat64 ? run(double{}) : run(float{});
  if (auto* n = autograd::track<CtcLossBackward>(out, x)) {
    n->plan = plan;
    n->save(0, x);
    n->save(1, alpha);
  }
  return out;
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcLossOptions& options) {
  detail::check_defined(log_probs, kCtc, "log_probs");
  TENDRIL_CHECK_AS(DTypeError, is_floating(log_probs.dtype()), kCtc, ": log_probs is ", log_probs.dtype(),
                   ", expected a floating dtype");
  if (autograd::detail::autocast_on() && autograd::detail::is_raised(log_probs)) [[unlikely]] {  // stays float32
    return ctc_loss(autograd::detail::raised(log_probs), targets, input_lengths, target_lengths, options);
  }
  if (const DType wide = computed_in(log_probs.dtype()); wide != log_probs.dtype()) {
    return ctc_loss(log_probs.to(wide), targets, input_lengths, target_lengths, options).to(log_probs.dtype());
  }
  const bool batched = log_probs.dim() == 3;
  TENDRIL_CHECK_AS(ShapeError, (batched || log_probs.dim() == 2) && log_probs.size(0) > 0 && log_probs.size(-1) > 0,
                   kCtc, ": log_probs has shape ", log_probs.sizes(),
                   ", expected [T, N, C] or [T, C] with at least one step and class");
  const Tensor x = batched ? log_probs : log_probs.unsqueeze(1);
  Tensor losses =
      each_loss(x, std::make_shared<const CtcPlan>(plan_of(x, targets, input_lengths, target_lengths, options)));
  if (options.zero_infinity) losses = losses.masked_fill(losses.detach().eq(HUGE_VAL), 0);
  if (options.reduction == LossReduction::none) return batched ? losses : losses.squeeze(0);
  if (options.reduction == LossReduction::sum) return losses.sum();
  std::vector<double> lengths;
  for (const int64_t length : target_lengths) lengths.push_back(static_cast<double>(std::max<int64_t>(length, 1)));
  const Tensor divisors = raw::from_data(lengths, {static_cast<int64_t>(lengths.size())});
  return (losses / raw::to(raw::cast(divisors, losses.dtype()), losses.device())).mean();
}

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcLossOptions& options) {
  return ctc_loss(log_probs, targets, integers(input_lengths, "input_lengths"),
                  integers(target_lengths, "target_lengths"), options);
}

}  // namespace tendril
