#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/lstm_gradients.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

/// An LSTM's layer by a device's function for whole layers (Kernels::lstm_layer).
namespace tendril {

namespace {

enum : std::size_t { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kH0, kC0, kArguments };
using Arguments = std::array<Tensor, kArguments>;

/// [...] or undefined as a kernel takes it.
class Optional {
 public:
  explicit Optional(const Tensor& x) {
    if (x.defined()) view_ = raw::view_of(x);
  }
  const View* get() const noexcept { return view_ ? &*view_ : nullptr; }

 private:
  std::optional<View> view_;
};

/// The arguments as kernels take them. Keeps what they point to.
class Layer {
 public:
  Layer(Arguments arguments, bool reverse, int way = 0)
      : arguments_(contiguous(std::move(arguments))),
        bias_ih_(arguments_[kBiasIh]),
        bias_hh_(arguments_[kBiasHh]),
        h0_(arguments_[kH0]),
        c0_(arguments_[kC0]),
        layer_{raw::view_of(arguments_[kX]),
               raw::view_of(arguments_[kWeightIh]),
               raw::view_of(arguments_[kWeightHh]),
               bias_ih_.get(),
               bias_hh_.get(),
               h0_.get(),
               c0_.get(),
               reverse,
               way} {}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  operator LstmLayer&() noexcept { return layer_; }

 private:
  static Arguments contiguous(Arguments arguments) {
    for (Tensor& x : arguments) {
      if (x.defined()) x = raw::contiguous(x);
    }
    return arguments;
  }

  Arguments arguments_;
  Optional bias_ih_, bias_hh_, h0_, c0_;
  LstmLayer layer_;
};

/// Inputs: as in Arguments. Outputs: output, c_n. Saved: the inputs, output, and what the device keeps for backward.
/// In pictures of the graph it is what LstmBackward (lstm.cpp) and the linear layer before it are elsewhere.
struct LstmWholeBackward : autograd::NodeOf<LstmWholeBackward, kArguments, kArguments + 2, 2> {
  static constexpr const char* kName = "LstmBackward";
  enum : int { kOutput = kArguments, kReserve };
  bool reverse = false, spent = false;
  int way = 0;
  std::array<bool, kArguments> has{};

  void backward(std::span<const Tensor> g, std::span<Tensor> dx) {
    if (autograd::grad_enabled()) {
      recorded(g, dx);
    } else {
      fused(g, dx);
    }
  }

  Arguments arguments() const {
    Arguments result;
    for (std::size_t i = 0; i < kArguments; ++i) {
      if (has[i]) result[i] = saved(static_cast<int>(i));
    }
    return result;
  }

  void fused(std::span<const Tensor> g, std::span<Tensor> dx) {
    const Arguments in = arguments();
    Layer layer(in, reverse, way);
    const Tensor output = saved(kOutput), reserve = saved(kReserve);
    const DeviceKernels table = kernels(output.device());
    if (spent) {  // an earlier backward through this node has overwritten what forward kept
      const Tensor c_n = raw::empty({output.sizes()[1], output.sizes()[2]}, output.dtype(), output.device());
      table->lstm_layer(layer, raw::view_of(raw::empty_like(output)), raw::view_of(c_n), reserve.raw_data());
    }
    spent = true;
    for (std::size_t i = 0; i < kArguments; ++i) {
      if (has[i] && needs_grad(static_cast<int>(i))) dx[i] = raw::empty_like(in[i]);
    }
    const auto whole = [](const Tensor& x) { return x.defined() ? raw::contiguous(x) : x; };
    const Tensor d_output = whole(g[0]), d_c_n = whole(g[1]);
    const Optional from[] = {Optional(d_output), Optional(d_c_n)};
    const Optional to[] = {Optional(dx[kX]),      Optional(dx[kWeightIh]), Optional(dx[kWeightHh]),
                           Optional(dx[kBiasIh]), Optional(dx[kBiasHh]),   Optional(dx[kH0]),
                           Optional(dx[kC0])};
    table->lstm_layer_backward(layer, raw::view_of(output), reserve.raw_data(),
                               {from[0].get(), from[1].get(), to[kX].get(), to[kWeightIh].get(), to[kWeightHh].get(),
                                to[kBiasIh].get(), to[kBiasHh].get(), to[kH0].get(), to[kC0].get()});
  }

  void recorded(std::span<const Tensor> g, std::span<Tensor> dx) const {
    const Arguments in = arguments();
    const Tensor &x = in[kX], &weight = in[kWeightIh];
    const Tensor bias = has[kBiasIh] ? in[kBiasIh] + in[kBiasHh] : Tensor();
    const auto gradients =
        detail::lstm_gradients(linear(x, weight, bias), in[kWeightHh], in[kH0], in[kC0], reverse, g[0], g[1]);
    const int64_t rows = x.sizes()[0] * x.sizes()[1];
    const Tensor d_gates = gradients.x_gates.reshape({rows, weight.sizes()[0]});
    if (needs_grad(kX)) dx[kX] = d_gates.mm(weight).reshape(x.sizes());
    if (needs_grad(kWeightIh)) dx[kWeightIh] = d_gates.t().mm(x.reshape({rows, x.sizes()[2]}));
    if (needs_grad(kWeightHh)) dx[kWeightHh] = gradients.weight_hh;
    if (needs_grad(kBiasIh) || needs_grad(kBiasHh)) dx[kBiasIh] = dx[kBiasHh] = d_gates.sum({0});
    if (needs_grad(kH0)) dx[kH0] = gradients.h0;
    if (needs_grad(kC0)) dx[kC0] = gradients.c0;
  }
};

/// Whether the arguments are those of a layer: if not, the composite says what is wrong.
bool fits(const Arguments& in) {
  const Tensor &x = in[kX], &weight = in[kWeightHh];
  if (!x.defined() || !weight.defined() || !in[kWeightIh].defined() || x.dim() != 3 || weight.dim() != 2) return false;
  if (x.numel() == 0 || !is_floating(x.dtype())) return false;
  const int64_t cells = weight.sizes()[1], gates = 4 * cells;
  const std::array<Dims, kArguments> expected = {
      x.sizes(),   Dims{gates, x.sizes()[2]}, Dims{gates, cells},       Dims{gates},
      Dims{gates}, Dims{x.sizes()[1], cells}, Dims{x.sizes()[1], cells}};
  for (std::size_t i = 0; i < kArguments; ++i) {
    if (!in[i].defined()) continue;
    if (in[i].sizes() != expected[i] || in[i].dtype() != x.dtype() || in[i].device() != x.device()) return false;
  }
  return cells > 0 && in[kBiasIh].defined() == in[kBiasHh].defined();
}

/// A layer with a projection, step by step.
LstmLayerResult projected_layer(const Tensor& x, const LstmWeights& w, const Tensor& h0, const Tensor& c0,
                                bool reverse) {
  constexpr const char* op = "lstm_layer";
  const Tensor &weight = w.weight_hh, &projection = w.weight_hr;
  detail::check_defined(weight, op, "weight_hh");
  TENDRIL_CHECK_AS(ShapeError, projection.dim() == 2 && projection.numel() > 0, op, ": weight_hr has shape ",
                   projection.sizes(), ", expected [P, H]");
  const int64_t width = projection.size(0), cells = projection.size(1);
  TENDRIL_CHECK_AS(ShapeError, (weight.sizes() == Dims{4 * cells, width}), op, ": weight_hh has shape ", weight.sizes(),
                   ", expected ", Dims({4 * cells, width}), " for a weight_hr of ", projection.sizes());
  TENDRIL_CHECK_AS(ShapeError, x.dim() == 3 && x.size(0) > 0, op, ": x has shape ", x.sizes(),
                   ", expected [T, N, I] with at least one step");
  const int64_t batch = x.size(1);
  for (const auto& [name, state, size] : {std::tuple("h0", &h0, width), std::tuple("c0", &c0, cells)}) {
    TENDRIL_CHECK_AS(ShapeError,
                     !state->defined() || (state->dim() == 2 && state->size(0) == batch && state->size(1) == size), op,
                     ": ", name, " has shape ", state->sizes(), ", expected ", Dims({batch, size}));
  }
  const Tensor bias = w.bias_ih.defined() ? w.bias_ih + w.bias_hh : Tensor();
  const std::vector<Tensor> x_gates = linear(x, w.weight_ih, bias).unbind(0);  // one product for all
  const auto zeros = [&](int64_t size) { return raw::zeros({batch, size}, x.dtype(), x.device()); };
  Tensor h = h0.defined() ? h0 : zeros(width), c = c0.defined() ? c0 : zeros(cells);
  std::vector<Tensor> outputs(x_gates.size());
  for (std::size_t i = 0; i < x_gates.size(); ++i) {
    const std::size_t t = reverse ? x_gates.size() - 1 - i : i;
    // task 1.5: the cell: c, h and outputs[t] from x_gates[t] and the h and c before; gates input, forget, cell, output
    const Tensor gates = x_gates[t] + h.mm(weight.t());
    const auto gate = [&](int64_t k) { return gates.narrow(1, k * cells, cells); };
    c = gate(1).sigmoid() * c + gate(0).sigmoid() * gate(2).tanh();
    outputs[t] = h = (gate(3).sigmoid() * c.tanh()).mm(projection.t());
    // end of task
  }
  return {stack(outputs, 0), c};
}

}  // namespace

LstmLayerResult lstm_layer(const Tensor& x, const LstmWeights& w, const Tensor& h0, const Tensor& c0, bool reverse) {
  detail::check_defined(x, "lstm_layer", "x");
  detail::check_defined(w.weight_ih, "lstm_layer", "weight_ih");
  for (const auto& [name, one] : {std::pair("weight_ih", &w.weight_ih), std::pair("weight_hh", &w.weight_hh),
                                  std::pair("bias_ih", &w.bias_ih), std::pair("bias_hh", &w.bias_hh),
                                  std::pair("weight_hr", &w.weight_hr), std::pair("h0", &h0), std::pair("c0", &c0)}) {
    TENDRIL_CHECK(!one->defined() || one->device() == x.device(), "lstm_layer: ", name, " is on ", one->device(),
                  ", expected x's device ", x.device());
  }
  if (autograd::detail::autocast_on()) [[unlikely]] {
    const LstmWeights low{autograd::detail::lowered(w.weight_ih), autograd::detail::lowered(w.weight_hh),
                          autograd::detail::lowered(w.bias_ih), autograd::detail::lowered(w.bias_hh),
                          autograd::detail::lowered(w.weight_hr)};
    const Tensor low_x = autograd::detail::lowered(x), low_h0 = autograd::detail::lowered(h0),
                 low_c0 = autograd::detail::lowered(c0);
    const autograd::detail::AutocastOff done;
    return lstm_layer(low_x, low, low_h0, low_c0, reverse);
  }
  const Arguments in = {x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, h0, c0};
  if (computed_in(x.dtype()) != x.dtype() && x.device().is_cpu() && (w.weight_hr.defined() || fits(in))) [[unlikely]] {
    // In float, of which the results are rounded: not what goes from step to step, and weights are read in halves once.
    const auto wide = [](const Tensor& t) { return t.defined() ? t.to(kFloat32) : t; };
    const LstmWeights weights{wide(w.weight_ih), wide(w.weight_hh), wide(w.bias_ih), wide(w.bias_hh),
                              wide(w.weight_hr)};
    const auto [output, c_n] = lstm_layer(wide(x), weights, wide(h0), wide(c0), reverse);
    return {output.to(x.dtype()), c_n.to(x.dtype())};
  }
  if (w.weight_hr.defined()) return projected_layer(x, w, h0, c0, reverse);
  const auto composite = [&] {
    const Tensor bias = w.bias_ih.defined() ? w.bias_ih + w.bias_hh : Tensor();
    return lstm_layer(linear(x, w.weight_ih, bias), w.weight_hh, h0, c0, reverse);
  };
  if (x.device().is_cpu()) return composite();
  const DeviceKernels table = kernels(x.device());
  if (!table->lstm_layer) return composite();
  if (!fits(in)) return composite();

  bool recorded = false;
  for (const Tensor& one : in) recorded |= autograd::grad_enabled() && autograd::requires_grad(one);
  Layer layer(in, reverse);
  const int64_t bytes = table->lstm_layer_reserve(layer, recorded);
  if (bytes < 0) return composite();
  const int64_t steps = x.sizes()[0], batch = x.sizes()[1], cells = w.weight_hh.sizes()[1];
  const Tensor output = raw::empty({steps, batch, cells}, x.dtype(), x.device());
  const Tensor c_n = raw::empty({batch, cells}, x.dtype(), x.device());
  const Tensor reserve = recorded ? raw::empty({bytes}, kUInt8, x.device()) : Tensor();
  table->lstm_layer(layer, raw::view_of(output), raw::view_of(c_n), recorded ? reserve.raw_data() : nullptr);

  if (auto* n = autograd::track<LstmWholeBackward>(output, x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, h0, c0)) {
    n->set_output(1, c_n);
    autograd::set_history(c_n, Ref<autograd::Node>(n), 1);
    for (std::size_t i = 0; i < kArguments; ++i) {
      n->has[i] = in[i].defined();
      if (n->has[i]) n->save(static_cast<int>(i), in[i]);
    }
    n->save_output(LstmWholeBackward::kOutput, output);
    n->save(LstmWholeBackward::kReserve, reserve);
    n->reverse = reverse;
    n->way = static_cast<LstmLayer&>(layer).way;
  }
  return {output, c_n};
}

}  // namespace tendril
