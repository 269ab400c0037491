#include "tendril/nn/lstm.h"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(lstm)

using tendril::Dims;
using tendril::DType;
using tendril::DTypeError;
using tendril::Error;
using tendril::Generator;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::nn::LSTM;
using tendril::nn::LSTMOptions;
using tendril::nn::LSTMState;
using tendril::testing::difference;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

namespace {

/// Values, states and all gradients of one case of golden.py's lstm(), from given states and from zeros.
void check_golden(const std::string& name, DType dtype, LSTMOptions options) {
  static const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/lstm.txt");
  const double rtol = dtype == tendril::kFloat64 ? 1e-11 : 1e-4, atol = dtype == tendril::kFloat64 ? 1e-12 : 2e-6;
  options.dtype = dtype;
  LSTM lstm(2, 2, options);
  for (const auto& [key, parameter] : lstm.named_parameters()) {
    raw::copy_(parameter, golden.get(name + "." + key, dtype));
  }
  for (const std::string start : {"given", "zeros"}) {
    BOOST_TEST_CONTEXT(name << " from " << start << " states in " << name_of(dtype)) {
      const std::string at = name + "." + start + ".";
      lstm.zero_grad();
      auto leaf = [&](const char* key) { return golden.get(name + "." + key, dtype).requires_grad_(); };
      const Tensor x = leaf("x");
      const LSTMState first = start == "given" ? LSTMState{leaf("h0"), leaf("c0")} : LSTMState{};
      const auto [output, state] = lstm(x, first);
      const std::vector<std::pair<std::string, Tensor>> values = {{"y", output}, {"h_n", state.h}, {"c_n", state.c}};
      Tensor total = make::zeros({}, dtype);
      for (const auto& [key, value] : values) {
        BOOST_TEST(difference(value, golden.get(at + key), rtol, atol) == "", key);
        total = total + (value * golden.get(at + "g_" + key, dtype)).sum();
      }
      total.backward();
      BOOST_TEST(difference(x.grad(), golden.get(at + "dx"), rtol, atol) == "", "dx");
      if (first.h.defined()) {
        BOOST_TEST(difference(first.h.grad(), golden.get(at + "dh0"), rtol, atol) == "", "dh0");
        BOOST_TEST(difference(first.c.grad(), golden.get(at + "dc0"), rtol, atol) == "", "dc0");
      }
      for (const auto& [key, parameter] : lstm.named_parameters()) {
        BOOST_TEST(difference(parameter.grad(), golden.get(at + "d" + key), rtol, atol) == "", key);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_states_and_gradients_equal_pytorchs) {
  for (DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    check_golden("plain", dtype, {});
    check_golden("no_bias", dtype, {.bias = false});
    check_golden("layers", dtype, {.num_layers = 2});
    check_golden("batch_first", dtype, {.num_layers = 2, .batch_first = true});
    check_golden("bidirectional", dtype, {.num_layers = 2, .bidirectional = true});
    check_golden("unbatched", dtype, {});
  }
}

BOOST_AUTO_TEST_CASE(the_recorded_gradients_equal_the_fused_ones) {
  Generator generator(test_seed());
  const auto leaf = [&](const Dims& sizes) {
    return tendril::randn(sizes, generator, {.dtype = tendril::kFloat64, .requires_grad = true});
  };
  for (const bool reverse : {false, true}) {
    const std::vector<Tensor> in = {leaf({5, 3, 16}), leaf({16, 4}), leaf({3, 4}), leaf({3, 4})};
    const auto result = tendril::lstm_layer(in[0], in[1], in[2], in[3], reverse);
    const std::vector<Tensor> g = {leaf({5, 3, 4}).detach(), leaf({3, 4}).detach()};
    const auto fused = tendril::autograd::grad({result.output, result.c_n}, in, g, {.retain_graph = true});
    const auto recorded = tendril::autograd::grad({result.output, result.c_n}, in, g, {.create_graph = true});
    for (std::size_t i = 0; i < in.size(); ++i) BOOST_TEST(difference(recorded[i], fused[i], 1e-12, 1e-13) == "", i);
  }
}

BOOST_AUTO_TEST_CASE(a_sequence_in_two_parts_gives_what_it_gives_in_one) {
  LSTM lstm(3, 4, {.num_layers = 2});
  Generator generator(test_seed());
  const Tensor x = tendril::randn({6, 2, 3}, generator);
  const auto whole = lstm(x);
  const auto first = lstm(x.narrow(0, 0, 2));
  const auto second = lstm(x.narrow(0, 2, 4), first.state);
  BOOST_TEST(difference(second.output, whole.output.narrow(0, 2, 4), 1e-5, 1e-6) == "");
  BOOST_TEST(difference(second.state.h, whole.state.h, 1e-5, 1e-6) == "");
  BOOST_TEST(difference(second.state.c, whole.state.c, 1e-5, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(a_state_carried_on_and_detached_ends_the_graph) {
  LSTM lstm(2, 3);
  auto [output, state] = lstm(make::ones({2, 1, 2}));
  state.h.detach_();
  state.c.detach_();
  const auto next = lstm(make::ones({2, 1, 2}), state);
  next.output.sum().backward();
  BOOST_TEST(!state.h.requires_grad());
  BOOST_CHECK_NO_THROW(output.sum().backward());  // the first part's graph was not used up
}

BOOST_AUTO_TEST_CASE(dropout_is_between_layers_and_in_training_only) {
  Generator generator(test_seed());
  LSTM lstm(2, 8, {.num_layers = 2, .dropout = 0.5, .generator = generator});
  LSTM one(2, 8, {.dropout = 0.5, .generator = generator});
  const Tensor x = make::ones({3, 2, 2});
  BOOST_TEST(!raw::equal(lstm(x).output.detach(), lstm(x).output.detach()));
  BOOST_TEST(raw::equal(one(x).output.detach(), one(x).output.detach()));
  lstm.eval();
  BOOST_TEST(raw::equal(lstm(x).output.detach(), lstm(x).output.detach()));
}

BOOST_AUTO_TEST_CASE(an_empty_batch_gives_an_empty_batch) {
  LSTM lstm(2, 3, {.num_layers = 2});
  const auto [output, state] = lstm(make::zeros({4, 0, 2}));
  BOOST_TEST((output.sizes() == Dims{4, 0, 3}));
  BOOST_TEST((state.h.sizes() == Dims{2, 0, 3}));
  output.sum().backward();
  for (const Tensor& parameter : lstm.parameters()) {
    BOOST_TEST(raw::equal(parameter.grad(), make::zeros(parameter.sizes())));
  }
}

BOOST_AUTO_TEST_CASE(initial_values_are_within_one_over_the_root_of_the_cells_and_drawn_from_the_generator) {
  Generator first(test_seed()), second(test_seed());
  LSTM a(3, 16, {.generator = first}), b(3, 16, {.generator = second});
  std::set<double> values;
  for (const auto& [name, parameter] : a.named_parameters()) {
    for (double value : parameter.to_vector<double>()) {
      BOOST_REQUIRE(std::abs(value) <= 0.25);
      values.insert(value);
    }
  }
  BOOST_TEST(*values.begin() < -0.24);
  BOOST_TEST(*values.rbegin() > 0.24);
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(raw::equal(a.parameters()[i], b.parameters()[i]));
}

BOOST_AUTO_TEST_CASE(parameters_have_pytorchs_names_in_pytorchs_order) {
  std::string names;
  for (const auto& [name, parameter] : LSTM(2, 3, {.num_layers = 2, .bidirectional = true}).named_parameters()) {
    names += name + " ";
  }
  BOOST_TEST(names ==
             "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 weight_ih_l0_reverse weight_hh_l0_reverse "
             "bias_ih_l0_reverse bias_hh_l0_reverse weight_ih_l1 weight_hh_l1 bias_ih_l1 bias_hh_l1 "
             "weight_ih_l1_reverse weight_hh_l1_reverse bias_ih_l1_reverse bias_hh_l1_reverse ");
  BOOST_TEST(LSTM(2, 3, {.num_layers = 4, .dropout = 0.5}).to_string() == "LSTM(2, 3, num_layers=4, dropout=0.5)");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  LSTM lstm(2, 3, {.num_layers = 2});
  BOOST_CHECK_EXCEPTION(lstm(make::ones({4, 1, 3})), ShapeError, says("LSTM", "x", "[4, 1, 3]", "steps, batch, 2]"));
  BOOST_CHECK_EXCEPTION(lstm(make::ones({2})), ShapeError, says("LSTM", "x", "[2]"));
  BOOST_CHECK_EXCEPTION(lstm(make::ones({0, 1, 2})), ShapeError, says("LSTM", "x", "[0, 1, 2]", "at least one step"));
  BOOST_CHECK_EXCEPTION(lstm(make::ones({4, 1, 2}, tendril::kFloat64)), DTypeError, says("LSTM", "float64", "float32"));
  BOOST_CHECK_EXCEPTION(lstm(Tensor()), Error, says("LSTM", "x", "undefined"));
  BOOST_CHECK_EXCEPTION(lstm(make::ones({4, 1, 2}), {make::ones({1, 1, 3}), {}}), ShapeError,
                        says("LSTM", "state.h", "[1, 1, 3]", "[2, 1, 3]"));
  BOOST_CHECK_EXCEPTION(lstm(make::ones({4, 2}), {{}, make::ones({2, 1, 3})}), ShapeError,
                        says("LSTM", "state.c", "[2, 1, 3]", "[2, 3]"));
  BOOST_CHECK_EXCEPTION(LSTM(0, 3), Error, says("LSTM", "input_size", "0"));
  BOOST_CHECK_EXCEPTION(LSTM(2, 0), Error, says("LSTM", "hidden_size", "0"));
  BOOST_CHECK_EXCEPTION(LSTM(2, 3, {.num_layers = 0}), Error, says("LSTM", "num_layers", "0"));
  BOOST_CHECK_EXCEPTION(LSTM(2, 3, {.dropout = 1.5}), Error, says("LSTM", "dropout", "1.5"));
  BOOST_CHECK_EXCEPTION(tendril::lstm_layer(make::ones({1, 1, 8}), make::ones({4, 1}), {}, {}), ShapeError,
                        says("lstm_layer", "x_gates", "[T, N, 4]", "[1, 1, 8]"));
  BOOST_CHECK_EXCEPTION(tendril::lstm_layer(make::ones({1, 1, 4}), make::ones({4, 2}), {}, {}), ShapeError,
                        says("lstm_layer", "weight_hh", "[4 H, H]", "[4, 2]"));
  BOOST_CHECK_EXCEPTION(tendril::lstm_layer(make::ones({1, 1, 4}), make::ones({4, 1}), {}, make::ones({2, 1})),
                        ShapeError, says("lstm_layer", "c0", "[1, 1]", "[2, 1]"));
}

BOOST_AUTO_TEST_SUITE_END()
