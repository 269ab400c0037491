#include "tendril/autograd/ops/lstm.h"

#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/lstm_gradients.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

/// Element t of a contiguous [T, rows, columns], as kernels take it.
View step_of(const Tensor& x, int64_t t) {
  const TensorImpl& impl = *x.impl();
  const int64_t numel = impl.sizes[1] * impl.sizes[2];
  char* data = static_cast<char*>(x.raw_data()) + t * numel * static_cast<int64_t>(size_of(impl.dtype));
  return {data, impl.sizes.data() + 1, impl.strides.data() + 1, numel, 2, impl.dtype, true};
}

/// All steps of [T, rows, columns] but the first (or the last), as rows.
Tensor steps_as_rows(const Tensor& x, int64_t start, int64_t count) {
  return raw::view(raw::narrow(x, 0, start, count), {count * x.sizes()[1], x.sizes()[2]});
}

/// Inputs: x_gates, weight_hh, h0, c0. Outputs: output, c_n. Saved: the inputs (for a recorded backward: a formula in
/// Tensor operations), output, and the gates' activations, cells and their tanh of all steps (for a fast one).
struct LstmBackward : autograd::NodeOf<LstmBackward, 4, 8, 2> {
  static constexpr const char* kName = "LstmBackward";
  enum : int { kXGates, kWeight, kH0, kC0, kOutput, kGates, kCells, kTanhC };
  bool reverse = false, has_h0 = false, has_c0 = false;

  void backward(std::span<const Tensor> g, std::span<Tensor> dx) {
    if (autograd::grad_enabled()) {
      recorded(g, dx);
    } else {
      fused(g, dx);
    }
  }

  /// Step number s of the walk forward.
  int64_t step(int64_t s, int64_t steps) const { return reverse ? steps - 1 - s : s; }

  void fused(std::span<const Tensor> g, std::span<Tensor> dx) const {
    const Tensor gates = saved(kGates), cells = saved(kCells), tanh_c = saved(kTanhC);
    const Tensor output = saved(kOutput), weight = saved(kWeight);
    const Dims state = {gates.sizes()[1], output.sizes()[2]};
    const Tensor zeros = raw::zeros(state, gates.dtype(), gates.device());
    const Tensor h0 = has_h0 ? raw::contiguous(saved(kH0)) : zeros;
    const Tensor c0 = has_c0 ? raw::contiguous(saved(kC0)) : zeros;
    const Tensor d_out = g[0].defined() ? raw::contiguous(g[0]) : Tensor();
    const Tensor d_gates = raw::empty_like(gates), d_h = raw::clone(zeros),
                 d_c = raw::clone(g[1].defined() ? g[1] : zeros);
    const DeviceKernels table = kernels(gates.device());
    const LstmSteps whole{raw::view_of(gates), raw::view_of(weight), raw::view_of(h0), raw::view_of(c0), reverse};
    View given{};
    if (d_out.defined()) given = raw::view_of(d_out);
    if (!table->lstm_steps_backward ||
        !table->lstm_steps_backward(whole, raw::view_of(d_gates), raw::view_of(d_c), raw::view_of(d_h),
                                    d_out.defined() ? &given : nullptr, raw::view_of(gates), raw::view_of(cells),
                                    raw::view_of(tanh_c), needs_grad(kH0))) {
      step_by_step(*table, {gates, cells, tanh_c, weight}, d_gates, d_c, d_h, d_out, c0);
    }
    dx[kXGates] = d_gates;
    if (needs_grad(kWeight)) dx[kWeight] = d_weight(d_gates, output, h0);
    if (needs_grad(kH0)) dx[kH0] = d_h;
    if (needs_grad(kC0)) dx[kC0] = d_c;
  }

  struct Kept {
    const Tensor &gates, &cells, &tanh_c, &weight;
  };
  void step_by_step(const Kernels& table, const Kept& kept, const Tensor& d_gates, const Tensor& d_c, const Tensor& d_h,
                    const Tensor& d_out, const Tensor& c0) const {
    const auto& [gates, cells, tanh_c, weight] = kept;
    const int64_t steps = gates.sizes()[0];
    const auto cell = require(table.lstm_cell_backward, "lstm_layer backward", table);
    for (int64_t s = steps - 1; s >= 0; --s) {
      const int64_t t = step(s, steps);
      View given{};
      if (d_out.defined()) given = step_of(d_out, t);
      const View before = s > 0 ? step_of(cells, step(s - 1, steps)) : raw::view_of(c0);
      const View d_gate = step_of(d_gates, t);
      cell(d_gate, raw::view_of(d_c), raw::view_of(d_h), d_out.defined() ? &given : nullptr, step_of(gates, t), before,
           step_of(tanh_c, t));
      if (s > 0 || needs_grad(kH0)) table.matmul(raw::view_of(d_h), d_gate, raw::view_of(weight));
    }
  }

  /// The sum over steps of d_gates^T h, where h is from before the step: one product for all steps but the first.
  Tensor d_weight(const Tensor& d_gates, const Tensor& output, const Tensor& h0) const {
    const int64_t steps = d_gates.sizes()[0];
    const Tensor first = raw::select(d_gates, 0, reverse ? steps - 1 : 0);
    const Tensor later = steps_as_rows(d_gates, reverse ? 0 : 1, steps - 1);
    const Tensor earlier = steps_as_rows(output, reverse ? 1 : 0, steps - 1);
    Tensor sum = raw::matmul(raw::transpose(later, 0, 1), earlier);
    if (has_h0) raw::binary_(Binary::add, sum, raw::matmul(raw::transpose(first, 0, 1), h0));
    return sum;
  }

  void recorded(std::span<const Tensor> g, std::span<Tensor> dx) const {
    const auto gradients = detail::lstm_gradients(saved(kXGates), saved(kWeight), has_h0 ? saved(kH0) : Tensor(),
                                                  has_c0 ? saved(kC0) : Tensor(), reverse, g[0], g[1]);
    dx[kXGates] = gradients.x_gates;
    if (needs_grad(kWeight)) dx[kWeight] = gradients.weight_hh;
    if (needs_grad(kH0)) dx[kH0] = gradients.h0;
    if (needs_grad(kC0)) dx[kC0] = gradients.c0;
  }
};

void check_arguments(const Tensor& x_gates, const Tensor& weight, const Tensor& h0, const Tensor& c0) {
  constexpr const char* op = "lstm_layer";
  detail::check_defined(x_gates, op, "x_gates");
  detail::check_defined(weight, op, "weight_hh");
  TENDRIL_CHECK_AS(ShapeError, weight.dim() == 2 && weight.sizes()[0] == 4 * weight.sizes()[1], op,
                   ": weight_hh must be [4 H, H], got shape ", weight.sizes());
  const int64_t cells = weight.sizes()[1];
  TENDRIL_CHECK_AS(ShapeError, x_gates.dim() == 3 && x_gates.sizes()[0] > 0 && x_gates.sizes()[2] == 4 * cells, op,
                   ": x_gates must be [T, N, ", 4 * cells, "] with at least one step, got shape ", x_gates.sizes());
  TENDRIL_CHECK_AS(DTypeError, is_floating(x_gates.dtype()), op, ": x_gates must be floating, got ", x_gates.dtype());
  const auto check = [&](const Tensor& x, const char* name, const Dims& sizes) {
    if (!x.defined()) return;
    TENDRIL_CHECK_AS(ShapeError, x.sizes() == sizes, op, ": ", name, " must be ", sizes, ", got shape ", x.sizes());
    TENDRIL_CHECK_AS(DTypeError, x.dtype() == x_gates.dtype(), op, ": ", name, " is ", x.dtype(), ", x_gates ",
                     x_gates.dtype());
    TENDRIL_CHECK(x.device() == x_gates.device(), op, ": ", name, " is on ", x.device(), ", x_gates on ",
                  x_gates.device());
  };
  check(weight, "weight_hh", weight.sizes());
  check(h0, "h0", {x_gates.sizes()[1], cells});
  check(c0, "c0", {x_gates.sizes()[1], cells});
}

}  // namespace

LstmLayerResult lstm_layer(const Tensor& x_gates, const Tensor& weight_hh, const Tensor& h0, const Tensor& c0,
                           bool reverse) {
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const Tensor x = autograd::detail::lowered(x_gates), w = autograd::detail::lowered(weight_hh),
                 h = autograd::detail::lowered(h0), c = autograd::detail::lowered(c0);
    const autograd::detail::AutocastOff done;
    return lstm_layer(x, w, h, c, reverse);
  }
  check_arguments(x_gates, weight_hh, h0, c0);
  if (computed_in(x_gates.dtype()) != x_gates.dtype() && x_gates.device().is_cpu()) [[unlikely]] {
    // In float, of which the results are rounded: not what goes from step to step.
    const auto wide = [](const Tensor& t) { return t.defined() ? t.to(kFloat32) : t; };
    const auto [output, c_n] = lstm_layer(wide(x_gates), wide(weight_hh), wide(h0), wide(c0), reverse);
    return {output.to(x_gates.dtype()), c_n.to(x_gates.dtype())};
  }
  const int64_t steps = x_gates.sizes()[0], batch = x_gates.sizes()[1], cell_count = weight_hh.sizes()[1];
  const DType dtype = x_gates.dtype();
  const Device device = x_gates.device();
  const Tensor x = raw::contiguous(x_gates);
  const Tensor zeros = h0.defined() && c0.defined() ? Tensor() : raw::zeros({batch, cell_count}, dtype, device);
  const Tensor first_h = h0.defined() ? raw::contiguous(h0) : zeros;
  const Tensor first_c = c0.defined() ? raw::contiguous(c0) : zeros;
  const Tensor output = raw::empty({steps, batch, cell_count}, dtype, device);
  const Tensor cells = raw::empty_like(output), tanh_c = raw::empty_like(output), gates = raw::empty_like(x);
  const DeviceKernels table = kernels(device);
  const LstmSteps whole{raw::view_of(x), raw::view_of(weight_hh), raw::view_of(first_h), raw::view_of(first_c),
                        reverse};
  if (!table->lstm_steps ||
      !table->lstm_steps(whole, raw::view_of(gates), raw::view_of(cells), raw::view_of(tanh_c), raw::view_of(output))) {
    const Tensor weight = raw::transpose(weight_hh, 0, 1);
    const auto cell = require(table->lstm_cell, "lstm_layer", *table);
    const auto product = require(table->matmul, "lstm_layer", *table);
    View h = whole.h0, c = whole.c0;
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t t = reverse ? steps - 1 - s : s;
      product(step_of(gates, t), h, raw::view_of(weight));
      cell(step_of(gates, t), step_of(x, t), c, step_of(cells, t), step_of(tanh_c, t), step_of(output, t));
      h = step_of(output, t);
      c = step_of(cells, t);
    }
  }
  // A copy, so that a state carried on does not keep all cells alive.
  const Tensor c_n = raw::clone(raw::select(cells, 0, reverse ? 0 : steps - 1));

  if (auto* n = autograd::track<LstmBackward>(output, x_gates, weight_hh, h0, c0)) {
    n->set_output(1, c_n);
    autograd::set_history(c_n, Ref<autograd::Node>(n), 1);
    n->save(LstmBackward::kXGates, x_gates);
    n->save(LstmBackward::kWeight, weight_hh);
    if (h0.defined()) n->save(LstmBackward::kH0, h0);
    if (c0.defined()) n->save(LstmBackward::kC0, c0);
    n->save_output(LstmBackward::kOutput, output);
    n->save(LstmBackward::kGates, gates);
    n->save(LstmBackward::kCells, cells);
    n->save(LstmBackward::kTanhC, tanh_c);
    n->reverse = reverse;
    n->has_h0 = h0.defined();
    n->has_c0 = c0.defined();
  }
  return {output, c_n};
}

namespace {

struct Step {
  Tensor h, c, i, f, g, o, tanh_c;  // h and c from before it
};

}  // namespace

detail::LstmGradients detail::lstm_gradients(const Tensor& x_gates, const Tensor& weight, const Tensor& h0,
                                             const Tensor& c0, bool reverse, const Tensor& d_output,
                                             const Tensor& d_c_n) {
  const int64_t steps = x_gates.sizes()[0], cells = weight.sizes()[1];
  const Tensor zeros = raw::zeros({x_gates.sizes()[1], cells}, x_gates.dtype(), x_gates.device());
  const auto gate = [&](const Tensor& x, int64_t k) { return x.narrow(1, k * cells, cells); };
  const auto step = [&](int64_t s) { return reverse ? steps - 1 - s : s; };
  std::vector<Step> walk;
  Tensor h = h0.defined() ? h0 : zeros, c = c0.defined() ? c0 : zeros;
  for (int64_t s = 0; s < steps; ++s) {
    const Tensor x = x_gates.select(0, step(s)) + h.mm(weight.t());
    Step now{h, c, gate(x, 0).sigmoid(), gate(x, 1).sigmoid(), gate(x, 2).tanh(), gate(x, 3).sigmoid(), {}};
    c = now.f * c + now.i * now.g;
    now.tanh_c = c.tanh();
    h = now.o * now.tanh_c;
    walk.push_back(now);
  }
  Tensor d_h = zeros, d_c = d_c_n.defined() ? d_c_n : zeros, d_weight;
  std::vector<Tensor> d_gates(static_cast<std::size_t>(steps));
  for (int64_t s = steps - 1; s >= 0; --s) {
    const auto& [h_before, c_before, i, f, cell, o, tanh_c] = walk[static_cast<std::size_t>(s)];
    const int64_t t = step(s);
    if (d_output.defined()) d_h = d_h + d_output.select(0, t);
    d_c = d_c + d_h * o * (1 - tanh_c.square());
    const Tensor d_x = cat({d_c * cell * i * (1 - i), d_c * c_before * f * (1 - f), d_c * i * (1 - cell.square()),
                            d_h * tanh_c * o * (1 - o)},
                           1);
    d_gates[static_cast<std::size_t>(t)] = d_x;
    const Tensor part = d_x.t().mm(h_before);
    d_weight = d_weight.defined() ? d_weight + part : part;
    d_h = d_x.mm(weight);
    d_c = d_c * f;
  }
  return {stack(d_gates, 0), d_weight, d_h, d_c};
}

}  // namespace tendril
