#include "tendril/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

namespace {

using Matrix = std::vector<std::vector<double>>;  // [element of the output][element of the input]

/// Contiguous leaves with the same elements, so that each element can be moved alone.
std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    TENDRIL_CHECK(input.defined(), "gradcheck: input ", leaves.size(), " is undefined");
    leaves.push_back(raw::clone(input));
    if (input.requires_grad()) leaves.back().requires_grad_();
  }
  return leaves;
}

Tensor random_like(const Tensor& x, Generator& generator) {
  std::vector<double> values(static_cast<std::size_t>(x.numel()));
  for (double& value : values) value = 2 * generator.uniform() - 1;
  return raw::cast(raw::from_data(values, x.sizes()), x.dtype()).to(x.device());
}

Tensor zeros_of(const Tensor& x) { return raw::zeros(x.sizes(), x.dtype(), x.device()); }

/// One element of a contiguous tensor.
void set_element(const Tensor& x, int64_t i, double value) {
  if (x.device().is_cpu()) {
    x.mutable_data<double>()[i] = value;
  } else {
    raw::fill_(raw::as_strided(x, {}, {}, i), value);
  }
}

struct Checker {
  const DifferentiableFunction& f;
  std::vector<Tensor> inputs;
  const GradcheckOptions& options;
  std::string problem = {};

  template <class... Parts>
  bool fail(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    problem = out.str();
    return false;
  }

  /// Gradients of one output, or of what `outputs` all are, for every input; undefined ones as zeros.
  std::vector<Tensor> gradients(const Tensor& output, const Tensor& gradient, bool create_graph = false) {
    std::vector<Tensor> wanted, result;
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    if (output.requires_grad()) {
      result = grad({output}, wanted, {gradient},
                    {.retain_graph = true, .create_graph = create_graph, .allow_unused = true});
    } else {
      result.resize(wanted.size());
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!result[i].defined()) result[i] = zeros_of(wanted[i]);
    }
    return result;
  }

  /// For each output, its elements' change with each element of the input: [output][element of output][of input].
  std::vector<Matrix> differences(const Tensor& input) {
    const NoGrad no_grad;
    const auto values = [&] {
      std::vector<std::vector<double>> all;
      for (const Tensor& output : f(inputs)) {
        all.push_back(is_floating(output.dtype()) ? output.to_vector<double>() : std::vector<double>());
      }
      return all;
    };
    std::vector<Matrix> jacobians;
    const std::vector<double> elements = input.to_vector<double>();
    // task 1.4: the columns of `jacobians`: move each element by +-options.eps, ask `values`, and put it back
    for (int64_t j = 0; j < input.numel(); ++j) {
      const double before = elements[static_cast<std::size_t>(j)];
      // Values are copied at once: a result may be a view of the input.
      set_element(input, j, before + options.eps);
      const auto above = values();
      set_element(input, j, before - options.eps);
      const auto below = values();
      set_element(input, j, before);
      jacobians.resize(above.size());
      for (std::size_t o = 0; o < above.size(); ++o) {
        jacobians[o].resize(above[o].size());
        for (std::size_t k = 0; k < above[o].size(); ++k) {
          jacobians[o][k].push_back((above[o][k] - below[o][k]) / (2 * options.eps));
        }
      }
    }
    // end of task
    return jacobians;
  }

  bool same(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double tolerance, const char* what) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto a = got[i].to_vector<double>(), b = expected[i].to_vector<double>();
      for (std::size_t j = 0; j < a.size(); ++j) {
        if (std::abs(a[j] - b[j]) <= tolerance * (1 + std::abs(b[j])) || a[j] == b[j]) continue;
        return fail(what, ": differentiable input ", i, ", element ", j, ": ", a[j], " instead of ", b[j]);
      }
    }
    return true;
  }

  bool compare(const Tensor& output, std::size_t o, const std::vector<std::vector<Matrix>>& numerical) {
    Tensor one_hot = zeros_of(output);
    for (int64_t k = 0; k < output.numel(); ++k) {
      const Tensor selected = raw::clone(one_hot);
      raw::fill_(raw::as_strided(selected, {}, {}, k), 1);
      const std::vector<Tensor> rows = gradients(output, selected);
      for (std::size_t i = 0, d = 0; i < inputs.size(); ++i) {
        if (!inputs[i].requires_grad()) continue;
        const auto row = rows[d].to_vector<double>();
        for (std::size_t j = 0; j < row.size(); ++j) {
          const double expected = numerical[d][o][static_cast<std::size_t>(k)][j];
          if (std::abs(row[j] - expected) <= options.atol + options.rtol * std::abs(expected)) continue;
          return fail("the derivative of output ", o, ", element ", k, ", by input ", i, ", element ", j,
                      ": backward says ", row[j], ", differences say ", expected);
        }
        ++d;
      }
    }
    return true;
  }

  bool check_invariants(const Tensor& output) {
    Generator generator(7);
    const Tensor g = random_like(output, generator);
    const std::vector<Tensor> expected = gradients(output, g);

    const Tensor zero = zeros_of(output);
    std::vector<Tensor> zeros;
    for (const Tensor& one : expected) zeros.push_back(zeros_of(one));
    if (!same(gradients(output, zero), zeros, 0, "a zero gradient")) return false;

    const bool any_order = !output.device().is_cpu() && !cuda::deterministic();
    const double apart = any_order ? std::max(options.nondeterminism, 1e-12) : options.nondeterminism;
    if (!same(gradients(output, g), expected, apart, "a second run")) return false;
    if (!same(gradients(output, g, true), expected, 1e-9, "a recorded run (create_graph)")) return false;

    Dims reversed, order;
    for (int d = output.dim() - 1; d >= 0; --d) {
      reversed.push_back(output.sizes()[d]);
      order.push_back(d);
    }
    const Tensor transposed = raw::permute(raw::clone(raw::permute(g, order)), order);
    if (!same(gradients(output, transposed), expected, 1e-12, "a transposed gradient")) return false;

    const Tensor broadcast = raw::expand(raw::ones({}, output.dtype(), output.device()), output.sizes());
    return same(gradients(output, broadcast), gradients(output, raw::clone(broadcast)), 1e-12, "a broadcast gradient");
  }

  bool check() {
    std::vector<std::vector<Matrix>> numerical;  // [differentiable input][output]
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) continue;
      TENDRIL_CHECK_AS(DTypeError, inputs[i].dtype() == kFloat64, "gradcheck: input ", i, " is ", inputs[i].dtype(),
                       "; differences need float64");
      numerical.push_back(differences(inputs[i]));
    }
    TENDRIL_CHECK(!numerical.empty(), "gradcheck: no input requires a gradient");
    const EnableGrad recording;
    const std::vector<Tensor> outputs = f(inputs);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (!is_floating(outputs[o].dtype())) continue;
      for (auto& by_input : numerical) {
        if (by_input.empty()) by_input.resize(outputs.size());
        by_input[o].resize(static_cast<std::size_t>(outputs[o].numel()));
      }
      if (!compare(outputs[o], o, numerical) || !check_invariants(outputs[o])) return false;
    }
    return true;
  }
};

}  // namespace

GradcheckResult gradcheck(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  Checker checker{f, leaves_of(inputs), options};
  if (checker.check()) return {};
  return {false, checker.problem};
}

GradcheckResult gradgradcheck(const DifferentiableFunction& f, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options) {
  Generator generator(11);
  std::vector<Tensor> all = leaves_of(inputs);
  std::vector<std::size_t> differentiable;
  for (std::size_t o = 0; const Tensor& output : f(all)) {
    if (output.requires_grad()) {
      all.push_back(random_like(output, generator).requires_grad_());
      differentiable.push_back(o);
    }
    ++o;
  }
  const DifferentiableFunction gradient = [&](const std::vector<Tensor>& given) {
    const EnableGrad recording;  // also for the differences, which only want values
    std::vector<Tensor> at(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    std::vector<Tensor> wanted, outputs, grads;
    for (const Tensor& input : at) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    const std::vector<Tensor> results = f(at);
    for (std::size_t i = 0; i < differentiable.size(); ++i) {
      outputs.push_back(results[differentiable[i]]);
      grads.push_back(given[inputs.size() + i]);
    }
    std::vector<Tensor> first = grad(outputs, wanted, grads, {.create_graph = true, .allow_unused = true});
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (!first[i].defined()) first[i] = zeros_of(wanted[i]);
    }
    return first;
  };
  if (differentiable.empty()) return {};
  GradcheckResult result = gradcheck(gradient, all, options);
  if (!result) result.message = "second derivative: " + result.message;
  return result;
}

}  // namespace tendril::autograd
