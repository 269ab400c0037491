// Layers of LSTMs on a device: by cuDNN and step by step, both against the CPU.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

struct Settings {
  explicit Settings(bool cudnn, bool tf32 = false) {
    cuda::set_cudnn(cudnn);
    cuda::set_convolution_tf32(tf32);
  }
  ~Settings() {
    cuda::set_cudnn(true);
    cuda::set_convolution_tf32(true);
  }
};

struct Case {
  int64_t steps, batch, input, cells;
  DType dtype = kFloat64;
  bool bias = true, state = true, reverse = false;
};

enum : std::size_t { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kH0, kC0, kCount };

std::vector<Tensor> arguments(const Case& c, Device device, const std::vector<std::size_t>& wanted) {
  const Dims gates = {4 * c.cells}, state = {c.batch, c.cells};
  const std::vector<Dims> sizes = {
      {c.steps, c.batch, c.input}, {4 * c.cells, c.input}, {4 * c.cells, c.cells}, gates, gates, state, state};
  std::vector<Tensor> all(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    if ((!c.bias && (i == kBiasIh || i == kBiasHh)) || (!c.state && (i == kH0 || i == kC0))) continue;
    all[i] = raw::to(random(sizes[i], c.dtype, i + 1), device);
    if (i != kX) all[i] = raw::to(raw::binary(Binary::mul, random(sizes[i], c.dtype, i + 1), 0.5), device);
  }
  for (const std::size_t i : wanted) {
    if (all[i].defined()) all[i].requires_grad_();
  }
  return all;
}

LstmLayerResult layer(const std::vector<Tensor>& in, bool reverse) {
  return lstm_layer(in[kX], {in[kWeightIh], in[kWeightHh], in[kBiasIh], in[kBiasHh]}, in[kH0], in[kC0], reverse);
}

struct Run {
  std::vector<Tensor> values;  // output, c_n
  std::vector<Tensor> gradients;
};

/// `times` backward passes through one graph; the last one's gradients.
Run run(const Case& c, Device device, const std::vector<std::size_t>& wanted, int times = 1, bool output = true,
        bool c_n = true, bool create_graph = false) {
  const std::vector<Tensor> in = arguments(c, device, wanted);
  const LstmLayerResult result = layer(in, c.reverse);
  Run all{{result.output.detach(), result.c_n.detach()}, {}};
  std::vector<Tensor> roots, from, leaves;
  const auto add = [&](const Tensor& root, uint64_t seed) {
    roots.push_back(root);
    from.push_back(raw::to(random(root.sizes(), c.dtype, seed), device));
  };
  if (output) add(result.output, 11);
  if (c_n) add(result.c_n, 12);
  for (const std::size_t i : wanted) {
    if (in[i].defined()) leaves.push_back(in[i]);
  }
  if (leaves.empty()) return all;
  for (int k = 0; k < times; ++k)
    all.gradients = autograd::grad(roots, leaves, from, {.retain_graph = k + 1 < times, .create_graph = create_graph});
  return all;
}

double layer_tolerance(DType dtype) {
  return dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-5 : dtype == kFloat16 ? 2e-2 : 1e-1;
}

void check_same(const Run& got, const Run& expected, double near, const std::string& what) {
  BOOST_REQUIRE(got.gradients.size() == expected.gradients.size());
  const auto check = [&](const Tensor& a, const Tensor& b, const char* kind, std::size_t i) {
    BOOST_TEST(difference(raw::to(a.detach(), kCPU), b.detach(), near, near) == "", what << ": " << kind << " " << i);
  };
  for (std::size_t i = 0; i < 2; ++i) check(got.values[i], expected.values[i], "value", i);
  for (std::size_t i = 0; i < got.gradients.size(); ++i) check(got.gradients[i], expected.gradients[i], "gradient", i);
}

std::string name(const Case& c) {
  std::ostringstream out;
  out << Dims{c.steps, c.batch, c.input, c.cells} << " in " << name_of(c.dtype) << (c.bias ? "" : ", no biases")
      << (c.state ? "" : ", from zeros") << (c.reverse ? ", in reverse" : "");
  return out.str();
}

const std::vector<std::size_t> kAll = {kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kH0, kC0};
const std::vector<Case> kCases = {{5, 3, 4, 6},
                                  {1, 1, 1, 1},
                                  {3, 2, 5, 7, kFloat64, false},
                                  {3, 2, 5, 7, kFloat64, true, false},
                                  {4, 2, 3, 5, kFloat64, true, true, true},
                                  {4, 2, 3, 5, kFloat64, false, false, true},
                                  {4, 3, 8, 12, kFloat32},
                                  {7, 1, 2, 3, kFloat32, true, false, true},
                                  {3, 2, 4, 4, kFloat16},
                                  {3, 3, 5, 3, kFloat16, true, true, true},
                                  {3, 2, 4, 4, kBFloat16}};

bool has_cudnn() {
  static const bool has = [] {
    const Settings with(true);
    const int64_t before = cuda::lstm_layers_by_cudnn();
    run({1, 1, 1, 1}, kGPU, {});
    return cuda::lstm_layers_by_cudnn() > before;
  }();
  return has;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lstm_layer)

BOOST_AUTO_TEST_CASE(cudnn_gives_the_cpus_values_and_gradients) {
  if (!has_cudnn()) return;
  const Settings with(true);
  for (const Case& c : kCases) {
    const int64_t before = cuda::lstm_layers_by_cudnn();
    check_same(run(c, kGPU, kAll), run(c, kCPU, kAll), layer_tolerance(c.dtype), name(c));
    BOOST_TEST(cuda::lstm_layers_by_cudnn() == before + 1);
  }
}

BOOST_AUTO_TEST_CASE(without_cudnn_steps_give_the_cpus_values_and_gradients) {
  const Settings without(false);
  const int64_t before = cuda::lstm_layers_by_cudnn();
  for (const Case& c : kCases) {
    const std::vector<std::size_t> wanted = {kX, kWeightIh, kWeightHh, kH0, kC0};
    check_same(run(c, kGPU, wanted), run(c, kCPU, wanted), layer_tolerance(c.dtype), name(c));
  }
  BOOST_TEST(cuda::lstm_layers_by_cudnn() == before);
}

BOOST_AUTO_TEST_CASE(only_wanted_gradients_are_computed_from_those_that_are_given) {
  const Settings with(true);
  const Case c{4, 2, 3, 5};
  for (const std::vector<std::size_t>& wanted : {std::vector<std::size_t>{kX}, {kWeightHh}, {kC0}, {kH0, kWeightIh}}) {
    check_same(run(c, kGPU, wanted), run(c, kCPU, wanted), 1e-12, "both results");
    check_same(run(c, kGPU, wanted, 1, false, true), run(c, kCPU, wanted, 1, false, true), 1e-12, "cells only");
    check_same(run(c, kGPU, wanted, 1, true, false), run(c, kCPU, wanted, 1, true, false), 1e-12, "output only");
  }
  check_same(run(c, kGPU, {}), run(c, kCPU, {}), 1e-12, "no gradients");
}

BOOST_AUTO_TEST_CASE(a_graph_that_is_kept_can_be_run_again) {
  const Settings with(true);
  for (const bool reverse : {false, true}) {
    const Case c{4, 2, 3, 5, kFloat64, true, true, reverse};
    check_same(run(c, kGPU, kAll, 3), run(c, kCPU, kAll), 1e-12, name(c));
  }
}

BOOST_AUTO_TEST_CASE(a_recorded_backward_gives_the_same_and_can_be_differentiated) {
  const Settings with(true);
  for (const bool state : {true, false}) {
    const Case c{3, 2, 2, 3, kFloat64, true, state, true};
    const std::vector<std::size_t> wanted = {kX, kWeightIh, kWeightHh};
    check_same(run(c, kGPU, wanted, 1, true, true, true), run(c, kCPU, wanted), 1e-11, name(c));
    const auto second = [&](Device device) {
      const std::vector<Tensor> in = arguments(c, device, wanted);
      const Tensor output = layer(in, c.reverse).output;
      const auto on = [&](const Dims& sizes, uint64_t seed) { return raw::to(random(sizes, c.dtype, seed), device); };
      const Tensor dx = autograd::grad({output}, {in[kX]}, {on(output.sizes(), 21)}, {.create_graph = true})[0];
      return autograd::grad({dx}, {in[kX], in[kWeightIh], in[kWeightHh]}, {on(dx.sizes(), 22)});
    };
    const std::vector<Tensor> got = second(kGPU), expected = second(kCPU);
    for (std::size_t i = 0; i < got.size(); ++i) {
      BOOST_TEST(difference(raw::to(got[i], kCPU), expected[i], 1e-11, 1e-11) == "", "second derivative " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(arguments_and_gradients_at_any_address_reach_cudnn_where_it_can_have_them) {
  const Settings settings(true);
  const Device device{DeviceType::cuda, 0};
  // One element after a multiple of 16 bytes.
  const auto shifted = [](const Tensor& x) {
    const Tensor all = raw::empty({x.numel() + 1}, x.dtype(), x.device()), view = raw::narrow(all, 0, 1, x.numel());
    raw::copy_(view, raw::view(x, {x.numel()}));
    return raw::view(view, x.sizes());
  };
  for (const bool reverse : {false, true}) {
    const Case c{3, 2, 5, 4, kFloat32, true, true, reverse};
    Run runs[2];
    const int64_t before = cuda::lstm_layers_by_cudnn();
    for (const bool moved : {false, true}) {
      std::vector<Tensor> in = arguments(c, device, {});
      for (Tensor& x : in) x = (moved ? shifted(x) : raw::clone(x)).requires_grad_();
      const LstmLayerResult result = layer(in, reverse);
      std::vector<Tensor> from;
      for (const Tensor& root : {result.output, result.c_n}) {
        const Tensor g = raw::to(random(root.sizes(), c.dtype, 11), device);
        from.push_back(moved ? shifted(g) : g);
      }
      runs[moved] = {{result.output.detach(), result.c_n.detach()},
                     autograd::grad({result.output, result.c_n}, in, from)};
    }
    BOOST_TEST(cuda::lstm_layers_by_cudnn() == before + 2);
    for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(raw::equal(runs[1].values[i], runs[0].values[i]));
    for (std::size_t i = 0; i < kCount; ++i) {
      BOOST_TEST(raw::equal(runs[1].gradients[i], runs[0].gradients[i]), "gradient " << i);
    }
  }
}

BOOST_AUTO_TEST_CASE(tf32_is_used_where_it_is_allowed) {
  if (!has_cudnn()) return;
  const Case c{4, 3, 8, 12, kFloat32};
  const Run expected = run(c, kCPU, kAll);
  const Settings with(true, true);
  check_same(run(c, kGPU, kAll), expected, 2e-2, "with TF32");
}

BOOST_AUTO_TEST_CASE(a_graph_made_with_other_settings_goes_back_the_way_it_came) {
  const Case c{4, 3, 8, 12, kFloat32};
  const std::vector<Tensor> in = arguments(c, kGPU, {kX}), there = arguments(c, kCPU, {kX});
  const Tensor g = random({c.steps, c.batch, c.cells}, c.dtype, 5);
  Tensor output;
  {
    const Settings with(true);
    output = layer(in, false).output;
  }
  const Settings without(false, true);
  const Tensor got = autograd::grad({output}, {in[kX]}, {raw::to(g, kGPU)})[0];
  const Tensor expected = autograd::grad({layer(there, false).output}, {there[kX]}, {g})[0];
  BOOST_TEST(difference(raw::to(got, kCPU), expected, 1e-5, 1e-5) == "");
}

BOOST_AUTO_TEST_CASE(an_empty_batch_goes_step_by_step) {
  const Settings with(true);
  const int64_t before = cuda::lstm_layers_by_cudnn();
  const Run result = run({3, 0, 2, 4, kFloat32, false}, kGPU, {kX});
  BOOST_TEST((result.values[0].sizes() == Dims{3, 0, 4}));
  BOOST_TEST(cuda::lstm_layers_by_cudnn() == before);
}

BOOST_AUTO_TEST_CASE(deterministic_layers_go_step_by_step) {
  const Settings with(true);
  const int64_t before = cuda::lstm_layers_by_cudnn();
  cuda::set_deterministic(true);
  const Case c{4, 2, 3, 5};
  check_same(run(c, kGPU, kAll), run(c, kCPU, kAll), 1e-12, name(c));
  cuda::set_deterministic(false);
  BOOST_TEST(cuda::lstm_layers_by_cudnn() == before);
}

BOOST_AUTO_TEST_CASE(what_cudnn_refuses_goes_step_by_step) {
  const Settings with(true);
  const int64_t before = cuda::lstm_layers_by_cudnn();
  const Case c{65536, 1, 1, 1, kFloat32, false, false};  // more steps than it takes
  check_same(run(c, kGPU, {}), run(c, kCPU, {}), 1e-4, name(c));
  BOOST_TEST(cuda::lstm_layers_by_cudnn() == before);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_as_on_the_cpu) {
  const Tensor x = raw::to(random({2, 1, 3}, kFloat32, 1), kGPU), w = raw::to(random({8, 4}, kFloat32, 1), kGPU);
  BOOST_CHECK_THROW(tendril::lstm_layer(x, {w, w, {}, {}}, {}, {}), ShapeError);
}

BOOST_AUTO_TEST_SUITE_END()
