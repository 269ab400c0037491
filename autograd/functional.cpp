#include "tendril/autograd/functional.h"

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd::functional {

namespace {

/// One call of f: inputs that a graph can lead to, and what f made of them.
struct Call {
  const char* op;
  Options options;
  Tensors inputs, outputs;

  Call(const char* name, const Function& f, const Tensors& given, Options how) : op(name), options(how) {
    TENDRIL_CHECK(!given.empty(), op, ": there are no inputs");
    for (const Tensor& x : given) {
      TENDRIL_CHECK(x.defined(), op, ": input ", inputs.size(), " is undefined");
      TENDRIL_CHECK_AS(DTypeError, is_floating(x.dtype()), op, ": input ", inputs.size(), " is ", x.dtype(),
                       ", expected a floating dtype");
      const bool connected = options.create_graph && x.requires_grad();
      inputs.push_back(connected ? x.view(x.sizes()) : x.detach().requires_grad_());
    }
    outputs = f(inputs);
    TENDRIL_CHECK(!outputs.empty(), op, ": the function gave no outputs");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TENDRIL_CHECK(outputs[i].defined(), op, ": output ", i, " is undefined");
      TENDRIL_CHECK_AS(DTypeError, is_floating(outputs[i].dtype()), op, ": output ", i, " is ", outputs[i].dtype(),
                       ", expected a floating dtype");
      TENDRIL_CHECK_AS(AutogradError, !options.strict || outputs[i].requires_grad(), op, ": output ", i,
                       " of the function is independent of all inputs, which strict does not allow");
    }
  }

  void check_scalar() const {
    TENDRIL_CHECK_AS(ShapeError, outputs.size() == 1 && outputs[0].numel() == 1, op,
                     ": expected a function of one output of one element, got ", outputs.size(),
                     " outputs, the first of shape ", outputs[0].sizes());
  }

  void check_like(const Tensors& v, const Tensors& expected, const char* what) const {
    TENDRIL_CHECK(v.size() == expected.size(), op, ": v has ", v.size(), " tensors, expected one for each of the ",
                  expected.size(), " ", what);
    for (std::size_t i = 0; i < v.size(); ++i) {
      TENDRIL_CHECK(v[i].defined(), op, ": v[", i, "] is undefined");
      TENDRIL_CHECK_AS(ShapeError, v[i].sizes() == expected[i].sizes(), op, ": v[", i, "] has shape ", v[i].sizes(),
                       ", expected ", expected[i].sizes(), " as that of the ", what);
      TENDRIL_CHECK_AS(DTypeError, v[i].dtype() == expected[i].dtype(), op, ": v[", i, "] is ", v[i].dtype(),
                       ", expected ", expected[i].dtype(), " as the ", what);
    }
  }

  /// sum over i of d(ends[i]) / d(starts[j]) weights[i], zeros where there is none. `create` records it.
  Tensors products(const Tensors& ends, const Tensors& starts, const Tensors& weights, bool create) const {
    Tensors from, by;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (!ends[i].requires_grad()) continue;
      from.push_back(ends[i]);
      by.push_back(weights.empty() ? Tensor() : weights[i]);
    }
    Tensors found(starts.size());
    if (!from.empty()) {
      found = grad(from, starts, by, {.retain_graph = true, .create_graph = create, .allow_unused = true});
    }
    for (std::size_t j = 0; j < starts.size(); ++j) {
      TENDRIL_CHECK_AS(AutogradError, !options.strict || found[j].defined(), op, ": input ", j,
                       " has no influence on what is differentiated, which strict does not allow");
      if (!found[j].defined()) found[j] = zeros_like(starts[j]);
    }
    return found;
  }

  Tensors result(Tensors made) const {
    if (options.create_graph) return made;
    for (Tensor& one : made) one = one.detach();
    return made;
  }
  Tensors result() const { return result(outputs); }
};

Tensors zeros_with_grad(const Tensors& like) {
  Tensors made;
  for (const Tensor& x : like) made.push_back(zeros_like(x).requires_grad_());
  return made;
}

/// One backward for each element of `ends`.
std::vector<Tensors> rows(const Call& call, const Tensors& ends) {
  std::vector<Tensors> all;
  for (const Tensor& end : ends) {
    std::vector<Tensors> found(call.inputs.size());  // [input][element of the end]
    for (int64_t k = 0; k < end.numel(); ++k) {
      const Tensor one_hot = raw::zeros(end.sizes(), end.dtype(), end.device());  // row-major, whatever the end is
      raw::fill_(raw::as_strided(one_hot, {}, {}, k), 1);
      const Tensors row = call.products({end}, call.inputs, {one_hot}, call.options.create_graph);
      for (std::size_t j = 0; j < row.size(); ++j) found[j].push_back(row[j]);
    }
    Tensors of_end;
    for (std::size_t j = 0; j < call.inputs.size(); ++j) {
      Dims sizes = end.sizes();
      for (const int64_t size : call.inputs[j].sizes()) sizes.push_back(size);
      of_end.push_back(found[j].empty() ? zeros(sizes, {.dtype = end.dtype(), .device = end.device()})
                                        : stack(found[j]).reshape(sizes));
    }
    all.push_back(call.result(std::move(of_end)));
  }
  return all;
}

/// For the forms with one tensor.
Function listed(const UnaryFunction& f) {
  return [&f](const Tensors& inputs) { return Tensors{f(inputs[0])}; };
}
Tensors list_of(const Tensor& v) { return v.defined() ? Tensors{v} : Tensors{}; }

}  // namespace

std::vector<Tensors> jacobian(const Function& f, const Tensors& inputs, Options options) {
  const EnableGrad recording;
  const Call call("jacobian", f, inputs, options);
  return rows(call, call.outputs);
}

std::vector<Tensors> hessian(const Function& f, const Tensors& inputs, Options options) {
  const EnableGrad recording;
  const Call call("hessian", f, inputs, options);
  call.check_scalar();
  return rows(call, call.products(call.outputs, call.inputs, {}, true));
}

std::pair<Tensors, Tensors> vjp(const Function& f, const Tensors& inputs, const Tensors& v, Options options) {
  const EnableGrad recording;
  const Call call("vjp", f, inputs, options);
  if (v.empty()) {
    call.check_scalar();
  } else {
    call.check_like(v, call.outputs, "outputs");
  }
  return {call.result(), call.result(call.products(call.outputs, call.inputs, v, options.create_graph))};
}

std::pair<Tensors, Tensors> jvp(const Function& f, const Tensors& inputs, const Tensors& v, Options options) {
  const EnableGrad recording;
  const Call call("jvp", f, inputs, options);
  call.check_like(v, call.inputs, "inputs");
  const Tensors weights = zeros_with_grad(call.outputs);
  const Tensors products = call.products(call.outputs, call.inputs, weights, true);
  return {call.result(), call.result(call.products(products, weights, v, options.create_graph))};
}

std::pair<Tensor, Tensors> vhp(const Function& f, const Tensors& inputs, const Tensors& v, Options options) {
  const EnableGrad recording;
  const Call call("vhp", f, inputs, options);
  call.check_scalar();
  call.check_like(v, call.inputs, "inputs");
  const Tensors slopes = call.products(call.outputs, call.inputs, {}, true);
  return {call.result()[0], call.result(call.products(slopes, call.inputs, v, options.create_graph))};
}

std::pair<Tensor, Tensors> hvp(const Function& f, const Tensors& inputs, const Tensors& v, Options options) {
  const EnableGrad recording;
  const Call call("hvp", f, inputs, options);
  call.check_scalar();
  call.check_like(v, call.inputs, "inputs");
  const Tensors slopes = call.products(call.outputs, call.inputs, {}, true);
  const Tensors weights = zeros_with_grad(call.inputs);
  const Tensors products = call.products(slopes, call.inputs, weights, true);
  return {call.result()[0], call.result(call.products(products, weights, v, options.create_graph))};
}

Tensor jacobian(const UnaryFunction& f, const Tensor& input, Options options) {
  return jacobian(listed(f), Tensors{input}, options)[0][0];
}
Tensor hessian(const UnaryFunction& f, const Tensor& input, Options options) {
  return hessian(listed(f), Tensors{input}, options)[0][0];
}
std::pair<Tensor, Tensor> vjp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options) {
  auto [outputs, product] = vjp(listed(f), Tensors{input}, list_of(v), options);
  return {outputs[0], product[0]};
}
std::pair<Tensor, Tensor> jvp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options) {
  auto [outputs, product] = jvp(listed(f), Tensors{input}, Tensors{v}, options);
  return {outputs[0], product[0]};
}
std::pair<Tensor, Tensor> vhp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options) {
  auto [output, product] = vhp(listed(f), Tensors{input}, Tensors{v}, options);
  return {output, product[0]};
}
std::pair<Tensor, Tensor> hvp(const UnaryFunction& f, const Tensor& input, const Tensor& v, Options options) {
  auto [output, product] = hvp(listed(f), Tensors{input}, Tensors{v}, options);
  return {output, product[0]};
}

}  // namespace tendril::autograd::functional
