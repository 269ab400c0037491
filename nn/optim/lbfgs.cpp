#include "tendril/nn/optim/lbfgs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/raw.h"

namespace tendril::optim {

namespace {

double largest(const Tensor& x) { return x.abs().max().item<double>(); }
double product(const Tensor& a, const Tensor& b) { return a.dot(b).item<double>(); }

/// The minimum of the cubic through two points with their slopes, within bounds (Nocedal and Wright, "Numerical
/// Optimization", 2006, 3.59). If the cubic has none, or a point is not finite, the middle of the bounds.
double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high) {
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2);
  const double square = d1 * d1 - g1 * g2;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double place = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                                : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
  return std::isfinite(place) ? std::clamp(place, low, high) : (low + high) / 2;
}

}  // namespace

void LBFGSOptions::validate(const char* op) const {
  detail::check_not_negative(op, "lr", lr);
  detail::check_not_negative(op, "tolerance_grad", tolerance_grad);
  detail::check_not_negative(op, "tolerance_change", tolerance_change);
  TENDRIL_CHECK(max_iter > 0, op, ": max_iter: got ", max_iter, ", expected a positive number");
  TENDRIL_CHECK(max_eval >= 0, op, ": max_eval: got ", max_eval, ", expected a number of 0 or more");
  TENDRIL_CHECK(history_size > 0, op, ": history_size: got ", history_size, ", expected a positive number");
  TENDRIL_CHECK(line_search_fn <= LineSearch::strong_wolfe, op, ": line_search_fn: got ",
                static_cast<int>(line_search_fn), ", expected none or strong_wolfe");
}

LBFGS::LBFGS(const std::vector<Tensor>& params, const LBFGSOptions& options) : Optimizer("LBFGS"), options_(options) {
  options.validate(name());
  add_group(params);
  for (std::size_t i = 1; i < params.size(); ++i) {
    TENDRIL_CHECK(params[i].dtype() == params[0].dtype() && params[i].device() == params[0].device(), "LBFGS: params[",
                  i, "] is ", params[i].dtype(), " on ", params[i].device(), ", expected ", params[0].dtype(), " on ",
                  params[0].device(), " as params[0]");
  }
}

void LBFGS::set_options(const LBFGSOptions& options) {
  options.validate("LBFGS");
  options_ = options;
}

double LBFGS::lr(std::size_t group) const {
  TENDRIL_CHECK_AS(IndexError, group == 0, "LBFGS::lr: group ", group, " of 1");
  return options_.lr;
}
void LBFGS::set_lr(double lr) { set_lr(0, lr); }
void LBFGS::set_lr(std::size_t group, double lr) {
  TENDRIL_CHECK_AS(IndexError, group == 0, "LBFGS::set_lr: group ", group, " of 1");
  detail::check_not_negative("LBFGS", "lr", lr);
  options_.lr = lr;
}
std::optional<double> LBFGS::momentum(std::size_t) const { return std::nullopt; }
void LBFGS::set_momentum(std::size_t, double) { TENDRIL_CHECK(false, "LBFGS::set_momentum: it has no momentum"); }
void LBFGS::update(std::span<const Ready>) {
  TENDRIL_CHECK(false, "LBFGS::step: got no closure, expected one that computes the loss and its gradients anew");
}

int64_t LBFGS::numel() const {
  int64_t count = 0;
  for (const Tensor& param : parameters()) count += param.numel();
  return count;
}

Tensor LBFGS::call(const std::function<Tensor()>& closure) const {
  Tensor loss;
  {
    const EnableGrad recording;
    loss = closure();
  }
  TENDRIL_CHECK_AS(ShapeError, loss.defined() && loss.numel() == 1, "LBFGS::step: the closure gave ",
                   loss.defined() ? "a tensor of " + std::to_string(loss.numel()) + " elements" : "an undefined tensor",
                   ", expected a loss of one");
  return loss;
}

double LBFGS::signed_loss(const Tensor& loss) const {
  const double value = loss.item<double>();
  return options_.maximize ? -value : value;
}

Tensor LBFGS::flat_grad() const {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& param = parameters()[i];
    const Tensor grad = param.grad();
    TENDRIL_CHECK(
        !grad.defined() || (grad.dtype() == parameters()[0].dtype() && grad.device() == parameters()[0].device()),
        "LBFGS::step: gradient ", i, " is ", grad.dtype(), " on ", grad.device(), ", expected ",
        parameters()[0].dtype(), " on ", parameters()[0].device());
    parts.push_back(grad.defined() ? grad.reshape({-1}) : raw::zeros({param.numel()}, param.dtype(), param.device()));
  }
  const Tensor flat = raw::cast(cat(parts), state_dtype(0));
  return options_.maximize ? flat.neg() : flat;
}

const Tensor& LBFGS::stepped(std::size_t index) const {
  const Tensor &param = parameters()[index], &master = master_weight(param);
  return master.defined() ? master : param;
}

void LBFGS::move_by(double t, const Tensor& d) const {
  int64_t offset = 0;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Tensor &param = parameters()[i], &from = stepped(i);
    const Tensor part = d.narrow(0, offset, param.numel()).view(param.sizes());
    if (param.dtype() == part.dtype()) {
      param.add_(part, t);
    } else {  // a half type: rounded once
      const Tensor wide = raw::cast(from, part.dtype());
      wide.add_(part, t);
      param.copy_(wide);
    }
    offset += param.numel();
  }
}

std::vector<Tensor> LBFGS::copies() const {
  std::vector<Tensor> copies;
  for (std::size_t i = 0; i < parameters().size(); ++i) copies.push_back(stepped(i).clone());
  return copies;
}
void LBFGS::restore(const std::vector<Tensor>& copies) const {
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Tensor &param = parameters()[i], &to = stepped(i);
    to.copy_(copies[i]);
    if (!to.is_same(param)) param.copy_(to);
  }
}

Tensor LBFGS::direction(const Tensor& grad, State& state) const {
  const Tensor y = grad - state.prev_flat_grad, s = state.d * state.t;
  const double ys = product(y, s);
  if (ys > 1e-10) {
    while (static_cast<int64_t>(state.old_dirs.size()) >= options_.history_size) {
      state.old_dirs.erase(state.old_dirs.begin());
      state.old_stps.erase(state.old_stps.begin());
      state.ro.erase(state.ro.begin());
    }
    state.old_dirs.push_back(y);
    state.old_stps.push_back(s);
    state.ro.push_back(1 / ys);
    state.h_diag = ys / product(y, y);
  }
  // The two loops of Nocedal and Wright's algorithm 7.4.
  const std::size_t count = state.old_dirs.size();
  std::vector<double> alpha(count);
  Tensor r = grad.neg();
  for (std::size_t i = count; i-- > 0;) {
    alpha[i] = product(state.old_stps[i], r) * state.ro[i];
    r.add_(state.old_dirs[i], -alpha[i]);
  }
  r.mul_(state.h_diag);
  for (std::size_t i = 0; i < count; ++i) {
    const double beta = product(state.old_dirs[i], r) * state.ro[i];
    r.add_(state.old_stps[i], alpha[i] - beta);
  }
  return r;
}

LBFGS::Point LBFGS::line_search(const std::function<Tensor()>& closure, const Point& start, const Tensor& d, double t,
                                int64_t most, int64_t& evaluations) const {
  // Nocedal and Wright's algorithms 3.5 and 3.6, in PyTorch's (minFunc's) version.
  constexpr double kC1 = 1e-4, kC2 = 0.9;
  const std::vector<Tensor> origin = copies();
  const auto evaluate = [&](double at) {
    move_by(at, d);
    const double loss = signed_loss(call(closure));
    const Tensor grad = flat_grad().clone();
    restore(origin);
    ++evaluations;
    const double slope = product(grad, d);
    // An infinite loss is above every bound, so that the search never accepts a point that is not finite.
    return Point{at, std::isfinite(loss) && std::isfinite(slope) ? loss : HUGE_VAL, grad, slope};
  };
  // The sufficient decrease, in float32 unless parameters are float64: where the loss has converged to its last digit,
  // a decrease that the dtype cannot represent is not required.
  const auto too_high = [&](const Point& point) {
    const double bound = start.loss + kC1 * point.t * start.slope;
    constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
    const bool narrow = parameters()[0].dtype() != kFloat64 && std::abs(bound) <= kLargest;
    return point.loss > (narrow ? static_cast<double>(static_cast<float>(bound)) : bound);
  };
  const double length = largest(d);

  Point before = start, now = evaluate(t);
  std::array<Point, 2> bracket = {start, now};
  bool done = false;
  int64_t tries = 0;
  for (; tries < most; ++tries) {
    if (too_high(now) || (tries > 1 && now.loss >= before.loss)) {
      bracket = {before, now};
      break;
    }
    if (std::abs(now.slope) <= -kC2 * start.slope) {
      bracket = {now, now};
      done = true;
      break;
    }
    if (now.slope >= 0) {
      bracket = {before, now};
      break;
    }
    const double next = cubic_minimum(before.t, before.loss, before.slope, now.t, now.loss, now.slope,
                                      now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = now;
    now = evaluate(next);
  }
  if (tries == most) bracket = {start, now};

  int low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
  bool stuck = false;
  while (!done && tries < most) {
    Point &a = bracket[0], &b = bracket[1];
    if (std::abs(b.t - a.t) * length < options_.tolerance_change) break;
    const double least = std::min(a.t, b.t), most_t = std::max(a.t, b.t);
    double next = cubic_minimum(a.t, a.loss, a.slope, b.t, b.loss, b.slope, least, most_t);
    const double margin = 0.1 * (most_t - least);
    if (std::min(most_t - next, next - least) < margin) {  // near an end: the second time, away from it
      if (stuck || next >= most_t || next <= least) {
        next = std::abs(next - most_t) < std::abs(next - least) ? most_t - margin : least + margin;
        stuck = false;
      } else {
        stuck = true;
      }
    } else {
      stuck = false;
    }
    now = evaluate(next);
    ++tries;
    Point &lower = bracket[static_cast<std::size_t>(low)], &upper = bracket[static_cast<std::size_t>(1 - low)];
    if (too_high(now) || now.loss >= lower.loss) {
      upper = now;
      low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
    } else {
      if (std::abs(now.slope) <= -kC2 * start.slope) {
        done = true;
      } else if (now.slope * (upper.t - lower.t) >= 0) {
        upper = lower;
      }
      lower = now;
    }
  }
  return bracket[static_cast<std::size_t>(low)];
}

void LBFGS::run(const std::function<Tensor()>& closure, const Tensor& first_loss, State& state) const {
  double loss = signed_loss(first_loss);
  Tensor grad = flat_grad();
  int64_t evaluations = 1;
  ++state.func_evals;
  if (!std::isfinite(loss) || !std::isfinite(largest(grad)) || largest(grad) <= options_.tolerance_grad) return;
  for (int64_t iteration = 1; iteration <= options_.max_iter; ++iteration) {
    ++state.n_iter;
    const bool first = state.n_iter == 1 || state.h_diag == 0;
    if (first) {
      state.d = grad.neg();
      state.h_diag = 1;
    } else {
      state.d = direction(grad, state);
    }
    const Tensor& d = state.d;
    state.prev_flat_grad = grad.clone();  // a gradient's own elements may be written by the next backward
    state.prev_loss = loss;
    state.t = first ? std::min(1.0, 1 / grad.abs().sum().item<double>()) * options_.lr : options_.lr;
    const double slope = product(grad, d);
    if (!(slope <= -options_.tolerance_change)) break;  // NaN: the direction overflows

    int64_t here = 0;
    bool flat = false;
    if (options_.line_search_fn == LineSearch::strong_wolfe) {
      const Point found =
          line_search(closure, {0, loss, state.prev_flat_grad, slope}, d, state.t, max_eval() - evaluations, here);
      loss = found.loss;
      grad = found.grad;
      state.t = found.t;
      move_by(state.t, d);
      flat = largest(grad) <= options_.tolerance_grad;
    } else {
      const bool evaluates = iteration != options_.max_iter;  // else the next step begins with an evaluation
      const std::vector<Tensor> origin = evaluates ? copies() : std::vector<Tensor>();
      move_by(state.t, d);
      if (evaluates) {
        loss = signed_loss(call(closure));
        grad = flat_grad();
        flat = largest(grad) <= options_.tolerance_grad;
        here = 1;
        if (!std::isfinite(loss) || !std::isfinite(largest(grad))) {
          restore(origin);
          state.old_dirs.clear();
          state.old_stps.clear();
          state.ro.clear();
          state.h_diag = 0;  // the next step starts along the gradient
          state.t = 0;
          flat = true;
        }
      }
    }
    evaluations += here;
    state.func_evals += here;
    if (iteration == options_.max_iter || evaluations >= max_eval() || flat) break;
    if (largest(d * state.t) <= options_.tolerance_change) break;
    if (std::abs(loss - state.prev_loss) < options_.tolerance_change) break;
  }
}

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  TENDRIL_CHECK(closure, "LBFGS::step: got an empty closure, expected one that computes the loss and its gradients");
  for (std::size_t i = 0; i < parameters().size(); ++i) check_as_given(i);
  Tensor loss = call(closure);
  const NoGrad nothing_recorded;
  if (numel() == 0) return loss;
  for (std::size_t i = 0; i < parameters().size(); ++i) renew_master(i);
  const std::vector<Tensor> before = copies();
  State state = state_;
  try {
    run(closure, loss, state);
  } catch (...) {
    restore(before);
    throw;
  }
  state_ = std::move(state);
  return loss;
}

// ---- saving and loading

template <class Self, class Visit>
void LBFGS::for_each_option(Self& options, const Visit& visit) {
  visit("lr", options.lr);
  visit("max_iter", options.max_iter);
  visit("max_eval", options.max_eval);
  visit("tolerance_grad", options.tolerance_grad);
  visit("tolerance_change", options.tolerance_change);
  visit("history_size", options.history_size);
  visit("maximize", options.maximize);
}

StateDict LBFGS::state_dict() const {
  StateDict dict;
  const std::string state = state_name(0) + ".", group = group_name(0) + ".";
  dict.insert(state + "func_evals", state_.func_evals);
  dict.insert(state + "n_iter", state_.n_iter);
  if (state_.d.defined()) {
    dict.insert(state + "d", state_.d);
    dict.insert(state + "t", state_.t);
    dict.insert(state + "H_diag", state_.h_diag);
    dict.insert(state + "prev_flat_grad", state_.prev_flat_grad);
    dict.insert(state + "prev_loss", state_.prev_loss);
    for (std::size_t i = 0; i < state_.ro.size(); ++i) {
      dict.insert(state + "old_dirs." + std::to_string(i), state_.old_dirs[i]);
      dict.insert(state + "old_stps." + std::to_string(i), state_.old_stps[i]);
      dict.insert(state + "ro." + std::to_string(i), state_.ro[i]);
    }
  }
  for_each_option(options_, [&](const char* field, const auto& value) { dict.insert(group + field, value); });
  dict.insert(group + "line_search_fn", static_cast<int64_t>(options_.line_search_fn));
  if (options_.master_weights) dict.insert(group + "master_weights", true);
  for (std::size_t i = 0; i < parameters().size(); ++i) add_master(dict, i);
  dict.insert(group + "params", members_of(0));
  return dict;
}

LoadReport LBFGS::load_state_dict(const StateDict& dict, const LoadOptions& load_options) {
  StateReader reader(dict, "LBFGS::load_state_dict");
  const std::string prefix = state_name(0) + ".", group = group_name(0) + ".";
  LBFGSOptions options = options_;
  for_each_option(options, [&](const char* field, auto& value) { reader.number(group + field, value); });
  if (reader.has(group + "master_weights")) reader.number(group + "master_weights", options.master_weights);
  auto search = static_cast<int64_t>(options.line_search_fn);
  reader.number(group + "line_search_fn", search);
  if (search == 0 || search == 1) {
    options.line_search_fn = static_cast<LineSearch>(search);
  } else {
    reader.refuse(group + "line_search_fn", "got " + std::to_string(search) + ", expected 0 or 1");
  }
  try {
    options.validate("LBFGS");
  } catch (const Error& error) {
    reader.refuse(group_name(0), error.what());
  }
  check_members(reader, 0);

  State state;
  const DType dtype = state_dtype(0);
  const auto vector = [&](const std::string& name, Tensor& value) {
    const Tensor* const found = reader.tensor(prefix + name, {numel()}, dtype);
    if (!found) return;
    value = raw::empty({numel()}, dtype, parameters()[0].device());
    raw::copy_(value, *found);
  };
  reader.number(prefix + "func_evals", state.func_evals);
  reader.number(prefix + "n_iter", state.n_iter);
  if (state.func_evals < 0 || state.n_iter < 0) {
    reader.refuse(prefix + "n_iter", "got a negative count, expected 0 or more");
  }
  if (state.n_iter > 0) {
    vector("d", state.d);
    reader.number(prefix + "t", state.t);
    reader.number(prefix + "H_diag", state.h_diag);
    vector("prev_flat_grad", state.prev_flat_grad);
    reader.number(prefix + "prev_loss", state.prev_loss);
    for (std::size_t i = 0; reader.has(prefix + "ro." + std::to_string(i)); ++i) {
      const std::string number = std::to_string(i);
      state.ro.push_back(0);
      state.old_dirs.emplace_back();
      state.old_stps.emplace_back();
      reader.number(prefix + "ro." + number, state.ro.back());
      vector("old_dirs." + number, state.old_dirs.back());
      vector("old_stps." + number, state.old_stps.back());
    }
    const bool complete = state.d.defined() && state.prev_flat_grad.defined() &&
                          std::ranges::all_of(state.old_dirs, [](const Tensor& x) { return x.defined(); }) &&
                          std::ranges::all_of(state.old_stps, [](const Tensor& x) { return x.defined(); });
    if (!complete) reader.refuse(state_name(0), "lacks a tensor that its next step needs");
  }
  std::vector<Tensor> masters;
  for (std::size_t i = 0; i < parameters().size(); ++i) masters.push_back(read_master(reader, i));
  LoadReport report = reader.finish(load_options);
  if (load_options.check_only) return report;
  for (std::size_t i = 0; i < masters.size(); ++i) masters[i] = copy_beside(masters[i], i);
  set_masters(std::move(masters));
  options_ = options;
  state_ = std::move(state);
  return report;
}

}  // namespace tendril::optim
