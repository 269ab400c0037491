#include "tendril/nn/embedding.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(embedding)

using tendril::DTypeError;
using tendril::Error;
using tendril::Generator;
using tendril::IndexError;
using tendril::ShapeError;
using tendril::Tensor;
using tendril::nn::Embedding;
using tendril::testing::says;
using tendril::testing::test_seed;
namespace make = tendril::make;
namespace raw = tendril::raw;

BOOST_AUTO_TEST_CASE(values_and_gradients_equal_pytorchs) {
  const tendril::testing::Golden golden(TENDRIL_TEST_DATA "/embedding.txt");
  const Tensor index = golden.get("index"), one = make::scalar(2, tendril::kInt64);
  for (tendril::DType dtype : {tendril::kFloat64, tendril::kFloat32}) {
    Embedding plain(5, 3, {.dtype = dtype}), padding(5, 3, {.padding_idx = 1, .dtype = dtype});
    Embedding from_the_end(5, 3, {.padding_idx = -1, .dtype = dtype});
    for (Embedding* layer : {&plain, &padding, &from_the_end}) raw::copy_(layer->weight, golden.get("weight", dtype));
    check_layer(golden, "plain", dtype, [&] { return plain(index); }, {{"weight", plain.weight}});
    check_layer(golden, "plain", dtype, [&] { return plain(raw::cast(index, tendril::kInt32)); },
                {{"weight", plain.weight}});
    check_layer(golden, "padding", dtype, [&] { return padding(index); }, {{"weight", padding.weight}});
    check_layer(golden, "padding_from_the_end", dtype, [&] { return from_the_end(index); },
                {{"weight", from_the_end.weight}});
    check_layer(golden, "one", dtype, [&] { return plain(one); }, {{"weight", plain.weight}});
  }
}

BOOST_AUTO_TEST_CASE(a_transposed_index_picks_the_rows_that_it_shows) {
  Embedding layer(6, 2);
  const Tensor index = tendril::tensor({{0, 1, 2}, {3, 4, 5}});
  BOOST_TEST(raw::equal(layer(index.t()), layer(index).transpose(0, 1)));
}

BOOST_AUTO_TEST_CASE(tables_of_integers_and_of_bools_are_looked_up_too) {
  const Tensor index = tendril::tensor({1, 0});
  const Tensor rows = tendril::embedding(index, make::arange(0, 6, 1, tendril::kInt64).reshape({2, 3}), 0);
  BOOST_TEST((rows.to_vector<int64_t>() == std::vector<int64_t>{3, 4, 5, 0, 1, 2}));
  for (const tendril::DType dtype : {tendril::kUInt8, tendril::kInt32, tendril::kBool}) {
    const Tensor table = raw::cast(tendril::tensor({{1}, {0}}), dtype);
    BOOST_TEST(raw::equal(tendril::embedding(index, table), raw::cast(tendril::tensor({{0}, {1}}), dtype)));
  }
}

// On a device outside the deterministic mode both are added up in any order.
BOOST_AUTO_TEST_CASE(the_recorded_gradient_equals_the_fast_one_bit_for_bit) {
  Generator generator(test_seed());
  Tensor weight = tendril::randn({7, 3}, generator, {.requires_grad = true});
  const Tensor index = tendril::randint(0, 7, {40}, generator), g = tendril::randn({40, 3}, generator);
  const Tensor y = tendril::embedding(index, weight, 2);
  const Tensor fast = tendril::autograd::grad({y}, {weight}, {g}, {.retain_graph = true})[0];
  const Tensor recorded = tendril::autograd::grad({y}, {weight}, {g}, {.create_graph = true})[0];
  const bool any_order = !fast.device().is_cpu() && !tendril::cuda::deterministic();
  const double close = any_order ? 1e-6 : 0;
  BOOST_TEST(tendril::testing::difference(fast, recorded, close, close) == "");
  BOOST_TEST(raw::equal(raw::select(fast, 0, 2), make::zeros({3})));
}

BOOST_AUTO_TEST_CASE(initial_values_are_normal_and_the_padding_row_is_zero) {
  Generator generator(test_seed());
  const Embedding layer(500, 20, {.padding_idx = 3, .generator = generator});
  BOOST_TEST(raw::equal(raw::select(layer.weight, 0, 3), make::zeros({20})));
  const std::vector<double> values = layer.weight.to_vector<double>();
  double sum = 0, squares = 0;
  for (double value : values) {
    sum += value;
    squares += value * value;
  }
  const double count = 499 * 20;  // standard deviations: mean 0.01, variance 0.014; the bounds allow seven
  BOOST_TEST(std::abs(sum / count) < 0.07);
  BOOST_TEST(std::abs(squares / count - 1) < 0.1);
}

BOOST_AUTO_TEST_CASE(it_prints_its_sizes) {
  BOOST_TEST(Embedding(10, 2).to_string() == "Embedding(10, 2)");
  BOOST_TEST(Embedding(10, 2, {.padding_idx = -1}).to_string() == "Embedding(10, 2, padding_idx=9)");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Embedding layer(10, 2);
  BOOST_CHECK_EXCEPTION(layer(tendril::tensor({3, 10})), IndexError, says("embedding", "index 10", "10 rows"));
  BOOST_CHECK_EXCEPTION(layer(tendril::tensor({-1})), IndexError, says("embedding", "index -1", "10 rows"));
  BOOST_CHECK_EXCEPTION(layer(make::ones({2})), DTypeError, says("embedding", "index", "int64", "float32"));
  BOOST_CHECK_EXCEPTION(layer(Tensor()), Error, says("embedding", "index", "undefined"));
  BOOST_CHECK_EXCEPTION(tendril::embedding(tendril::tensor({0}), make::ones({3})), ShapeError,
                        says("embedding", "weight", "[rows, width]", "[3]"));
  BOOST_CHECK_EXCEPTION(tendril::embedding(tendril::tensor({0}), make::ones({3, 2}), 3), IndexError,
                        says("embedding", "padding_idx 3", "3 rows"));
  BOOST_CHECK_EXCEPTION(Embedding(0, 2), Error, says("Embedding", "num_embeddings", "0", "positive"));
  BOOST_CHECK_EXCEPTION(Embedding(2, 0), Error, says("Embedding", "embedding_dim", "0", "positive"));
  BOOST_CHECK_EXCEPTION(Embedding(2, 2, {.padding_idx = 2}), IndexError, says("Embedding", "padding_idx", "2"));
}

BOOST_AUTO_TEST_SUITE_END()
