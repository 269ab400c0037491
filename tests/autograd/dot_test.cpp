#include "tendril/autograd/dot.h"

#include "tendril/autograd/anomaly.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(dot)

using namespace tendril;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Two functions to be found again by name.
[[gnu::noinline]] Tensor logarithm_of_what_may_be_zero(const Tensor& x) { return x.log(); }
[[gnu::noinline]] Tensor a_model(const Tensor& x) { return (logarithm_of_what_may_be_zero(x) * 0.0).sum(); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_graph_is_drawn_in_pytorchvizs_colours) {
  const Tensor w = ones({2, 3}, {.requires_grad = true}), x = ones({3});
  const Tensor y = (w * x).exp().sum();
  const std::string text = autograd::dot(y, {.params = {{"fc.weight", w}}, .show_saved = true});
  const std::string expected = R"dot(digraph {
  graph [size="12,12"]
  node [align=left fontname=monospace fontsize=10 height=0.2 ranksep=0.1 shape=box style=filled]
  n0 [label="\n ()" fillcolor=darkolivegreen1]
  n1 [label="SumBackward"]
  n2 -> n1
  n2 [label="ExpBackward"]
  n3 [label="saved 0\n (2, 3)" fillcolor=orange]
  n2 -> n3 [dir=none]
  n4 -> n2
  n4 [label="MulBackward"]
  n5 [label="saved 1\n (3)" fillcolor=orange]
  n4 -> n5 [dir=none]
  n6 -> n4
  n6 [label="AccumulateGrad"]
  n7 [label="fc.weight\n (2, 3)" fillcolor=lightblue]
  n7 -> n6
  n1 -> n0
}
)dot";
  BOOST_TEST(text == expected);
  BOOST_TEST(!has(autograd::dot(y), "orange"));
}

BOOST_AUTO_TEST_CASE(what_several_use_is_drawn_once) {
  const Tensor x = ones({2}, {.requires_grad = true});
  const Tensor shared = x.exp();
  const std::string text = autograd::dot({shared * shared, shared.sum()});
  BOOST_TEST(count(text, "ExpBackward") == 1);
  BOOST_TEST(count(text, "lightblue") == 1);
  BOOST_TEST(count(text, "darkolivegreen1") == 2);
}

BOOST_AUTO_TEST_CASE(the_base_of_a_view_is_dark_and_dotted) {
  const Tensor x = ones({4}, {.requires_grad = true});
  const std::string text = autograd::dot(x.exp().slice(0, 1));
  BOOST_TEST(has(text, "darkolivegreen3"));
  BOOST_TEST(has(text, "[style=dotted]"));
  BOOST_TEST(count(autograd::dot(ones({3})), "->") == 0);
  CHECK_RAISES(Error, "dot: tensor 0 is undefined", autograd::dot(Tensor()));
}

BOOST_AUTO_TEST_CASE(a_deep_graph_is_drawn) {
  Tensor y = ones({1}, {.requires_grad = true});
  for (int i = 0; i < 100000; ++i) y = y + 1;
  BOOST_TEST(count(autograd::dot(y), "AddBackward") == 100000);
}

BOOST_AUTO_TEST_CASE(anomaly_detection_names_the_functions_that_recorded) {
  const autograd::DetectAnomaly detect;
  const Tensor x = zeros({2}, {.requires_grad = true});
  const Tensor y = a_model(x);
  CHECK_RAISES(AutogradError, "Function 'LogBackward' returned nan values in its 0th output. It was recorded in",
               y.backward({.retain_graph = true}));
  try {
    y.backward();
  } catch (const AutogradError& error) {
    const std::string text = error.what();
    const std::size_t log = text.find("tendril::Tensor::log() const"),
                      inner = text.find("logarithm_of_what_may_be_zero"), outer = text.find("a_model");
    BOOST_TEST((log < inner && inner < outer && outer != std::string::npos), text);
    BOOST_TEST(text.find("note_place") == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(what_was_recorded_without_detection_has_no_place) {
  const Tensor y = a_model(zeros({2}, {.requires_grad = true}));
  const autograd::DetectAnomaly detect;
  CHECK_RAISES(AutogradError, "is not known: that was outside DetectAnomaly", y.backward());
}

BOOST_AUTO_TEST_SUITE_END()
