// Sequences of different lengths through recurrent layers, and LSTMs with projections.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/rnn.h"
#include "tendril/nn/utils/rnn.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/nn/layer_golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(packed)

using namespace tendril;
using nn::utils::PackedSequence;
using tendril::testing::Golden;
using tendril::testing::says;
using tendril::testing::test_seed;
using Lengths = std::vector<int64_t>;

namespace {

const Lengths kLengths = {2, 5, 1, 3, 3};

Tensor draw(const Dims& sizes, uint64_t seed = 5) {
  Generator generator(test_seed(seed));
  Tensor x = make::empty(sizes, kFloat64);
  raw::uniform_(x, -1, 1, generator);
  return x.requires_grad_();
}

Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(tensor.flatten());
  return cat(parts);
}

PackedSequence pack(const Tensor& x) { return nn::utils::pack_padded_sequence(x, kLengths, {.enforce_sorted = false}); }

/// Output, padded, and last states.
Tensor results(const nn::LSTM& layer, const std::vector<Tensor>& in) {
  const auto [y, last] = layer(pack(in[0]), {in[1], in[2]});
  return flat({std::get<0>(pad_packed_sequence(y)), last.h, last.c});
}
Tensor results(const nn::RNNBase& layer, const std::vector<Tensor>& in) {
  const auto [y, last] = layer(pack(in[0]), in[1]);
  return flat({std::get<0>(pad_packed_sequence(y)), last});
}

template <class Layer, class Call>
void check_golden(const Golden& golden, const std::string& name, DType dtype, const Layer& layer,
                  const std::vector<std::string>& inputs, const Call& call) {
  std::vector<std::pair<std::string, Tensor>> leaves;
  std::vector<Tensor> given;
  for (const std::string& input : inputs) {
    given.push_back(golden.get(name + "." + input, dtype).requires_grad_());
    leaves.emplace_back(input, given.back());
  }
  for (const auto& [key, parameter] : layer.named_parameters()) {
    raw::copy_(parameter, golden.get(name + "." + key, dtype));
    leaves.emplace_back(key, parameter);
  }
  check_layer(
      golden, name, dtype, [&] { return call(layer, given); }, leaves, 5);
}

}  // namespace

BOOST_AUTO_TEST_CASE(layers_of_packed_sequences_equal_pytorchs) {
  const Golden golden(TENDRIL_TEST_DATA "/packed.txt");
  BOOST_TEST(golden.get("lengths").to_vector<int64_t>() == kLengths);
  const auto both = [](const auto& layer, const std::vector<Tensor>& in) { return results(layer, in); };
  const auto from_zeros = [](const auto& layer, const std::vector<Tensor>& in) {
    return std::get<0>(pad_packed_sequence(layer(pack(in[0])).output));
  };
  for (const DType dtype : {kFloat64, kFloat32}) {
    const auto check = [&](const std::string& name, const auto& layer) {
      const bool lstm = name.starts_with("lstm");
      check_golden(golden, name, dtype, layer,
                   lstm ? std::vector<std::string>{"x", "h", "c"} : std::vector<std::string>{"x", "h"}, both);
      check_golden(golden, name + "_zeros", dtype, layer, {"x"}, from_zeros);
    };
    const nn::RNNOptions two{.num_layers = 2, .bidirectional = true, .dtype = dtype};
    check("gru", nn::GRU(2, 3, {.dtype = dtype}));
    check("rnn", nn::RNN(2, 3, {.bias = false, .dtype = dtype}));
    check("gru_both", nn::GRU(2, 3, two));
    check("rnn_both", nn::RNN(2, 3, two));
    check("lstm", nn::LSTM(2, 3, {.dtype = dtype}));
    check("lstm_both", nn::LSTM(2, 3, {.num_layers = 2, .bidirectional = true, .dtype = dtype}));
    const nn::LSTM projected(2, 3, {.num_layers = 2, .bidirectional = true, .proj_size = 2, .dtype = dtype});
    check("lstm_proj", projected);
    check_golden(golden, "lstm_proj_plain", dtype, projected, {"x", "h", "c"},
                 [](const nn::LSTM& layer, const std::vector<Tensor>& in) {
                   const auto [y, last] = layer(in[0], {in[1], in[2]});
                   return flat({y, last.h, last.c});
                 });
  }
}

BOOST_AUTO_TEST_CASE(each_sequence_is_computed_as_if_it_were_alone) {
  const nn::GRU layer(2, 3, {.num_layers = 2, .bidirectional = true, .dtype = kFloat64});
  const Tensor x = draw({5, 5, 2}).detach();
  const auto [y, h_n] = layer(pack(x));
  const std::vector<Tensor> alone = nn::utils::unpack_sequence(y);
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto [expected, last] = layer(x.narrow(0, 0, kLengths[i]).select(1, at));
    BOOST_TEST(tendril::testing::difference(alone[i], expected.detach(), 1e-13, 1e-14) == "");
    BOOST_TEST(tendril::testing::difference(h_n.select(1, at), last.detach(), 1e-13, 1e-14) == "");
  }
}

BOOST_AUTO_TEST_CASE(packing_has_pytorchs_order) {
  const Tensor x = make::arange(0, 10, 1, kFloat32).view({5, 2});  // steps of two sequences
  const PackedSequence packed = nn::utils::pack_padded_sequence(x, {2, 4}, {.enforce_sorted = false});
  BOOST_TEST(packed.data.to_vector<float>() == (std::vector<float>{1, 0, 3, 2, 5, 7}));
  BOOST_TEST(packed.batch_sizes == (Lengths{2, 2, 1, 1}));
  BOOST_TEST(packed.sorted_indices.to_vector<int64_t>() == (Lengths{1, 0}));
  const auto [padded, lengths] = pad_packed_sequence(packed, {.padding_value = -1, .total_length = 5});
  BOOST_TEST(padded.t().to_vector<float>() == (std::vector<float>{0, 2, -1, -1, -1, 1, 3, 5, 7, -1}));
  BOOST_TEST(lengths.to_vector<int64_t>() == (Lengths{2, 4}));
  const auto [first, same] = pad_packed_sequence(packed, {.batch_first = true});
  BOOST_TEST((first.sizes() == Dims{2, 4}));
  const PackedSequence again =
      nn::utils::pack_padded_sequence(first, same, {.batch_first = true, .enforce_sorted = false});
  BOOST_TEST(raw::equal(again.data, packed.data));

  const std::vector<Tensor> sequences = {make::ones({3, 2}), make::zeros({1, 2})};
  BOOST_TEST((nn::utils::pad_sequence(sequences).sizes() == Dims{3, 2, 2}));
  const PackedSequence sorted = nn::utils::pack_sequence(sequences);
  BOOST_TEST(sorted.batch_sizes == (Lengths{2, 1, 1}));
  BOOST_TEST(!sorted.sorted_indices.defined());
  const std::vector<Tensor> back = nn::utils::unpack_sequence(sorted);
  BOOST_TEST(raw::equal(back[0], sequences[0]));
  BOOST_TEST(raw::equal(back[1], sequences[1]));
}

BOOST_AUTO_TEST_CASE(packing_and_its_layers_have_both_derivatives) {
  const auto check = [](const char* name, const autograd::DifferentiableFunction& f, const std::vector<Tensor>& in) {
    BOOST_TEST_CONTEXT(name) {
      const auto first = autograd::gradcheck(f, in);
      BOOST_TEST(first.ok, first.message);
      const auto second = autograd::gradgradcheck(f, in);
      BOOST_TEST(second.ok, second.message);
    }
  };
  const Lengths lengths = {1, 3, 2};
  const auto packed_results = [&](const auto& layer) {
    return [&](const std::vector<Tensor>& in) {
      const PackedSequence x = nn::utils::pack_padded_sequence(in[0], lengths, {.enforce_sorted = false});
      if constexpr (requires { layer(x, nn::LSTMState{}); }) {
        const auto [y, last] = layer(x, {in[1], in[2]});
        return std::vector<Tensor>{y.data, last.h, last.c};
      } else {
        const auto [y, h_n] = layer(x, in[1]);
        return std::vector<Tensor>{y.data, h_n};
      }
    };
  };
  const nn::LSTM lstm(2, 2, {.bidirectional = true, .dtype = kFloat64});
  const nn::LSTM projected(2, 3, {.bidirectional = true, .proj_size = 2, .dtype = kFloat64});
  const nn::GRU gru(2, 2, {.bidirectional = true, .dtype = kFloat64});
  check("lstm", packed_results(lstm), {draw({3, 3, 2}), draw({2, 3, 2}, 6), draw({2, 3, 2}, 7)});
  check("lstm with projection", packed_results(projected), {draw({3, 3, 2}), draw({2, 3, 2}, 6), draw({2, 3, 3}, 7)});
  check("gru", packed_results(gru), {draw({3, 3, 2}), draw({2, 3, 2}, 6)});
  check("lstm_layer with projection",
        [](const std::vector<Tensor>& in) {
          const auto [y, c] = lstm_layer(in[0], LstmWeights{in[1], in[2], {}, {}, in[3]}, {}, {});
          return std::vector<Tensor>{y, c};
        },
        {draw({2, 2, 2}), draw({12, 2}, 6), draw({12, 2}, 7), draw({2, 3}, 8)});
  check("pad_packed_sequence",
        [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{
              std::get<0>(pad_packed_sequence(nn::utils::pack_sequence({in[0], in[1]}, false), {.padding_value = 2}))};
        },
        {draw({1, 2}), draw({3, 2}, 6)});
}

BOOST_AUTO_TEST_CASE(projections_have_pytorchs_names_and_half_types) {
  const nn::LSTM layer(4, 6, {.bias = false, .proj_size = 3, .dtype = kBFloat16});
  const auto named = layer.named_parameters();
  BOOST_TEST(named[2].first == "weight_hr_l0");
  BOOST_TEST((named[1].second.sizes() == Dims{24, 3}));
  BOOST_TEST(layer.to_string() == "LSTM(4, 6, proj_size=3, bias=false)");
  const auto [y, last] = layer(make::ones({2, 1, 4}, kBFloat16));
  BOOST_TEST((y.dtype() == kBFloat16));
  BOOST_TEST((last.c.sizes() == Dims{1, 1, 6}));
  const Autocast mixed(kBFloat16);
  BOOST_TEST((nn::LSTM(4, 6, {.proj_size = 3})(make::ones({2, 1, 4})).output.dtype() == kBFloat16));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const Tensor x = make::ones({4, 2, 3});
  using nn::utils::pack_padded_sequence;
  BOOST_CHECK_EXCEPTION(pack_padded_sequence(x, {1, 2}), Error, says("pack_padded_sequence", "lengths[1]", "2"));
  BOOST_CHECK_EXCEPTION(pack_padded_sequence(x, {5, 2}), Error, says("lengths[0]", "5", "4"));
  BOOST_CHECK_EXCEPTION(pack_padded_sequence(x, {2, 0}), Error, says("lengths[1]", "0"));
  BOOST_CHECK_EXCEPTION(pack_padded_sequence(x, {2}), ShapeError, says("1 lengths", "2"));
  BOOST_CHECK_EXCEPTION(pack_padded_sequence({}, {2}), Error, says("input is an undefined"));
  BOOST_CHECK_EXCEPTION(pack_padded_sequence(x, make::ones({2})), DTypeError, says("lengths", "float32"));
  const PackedSequence packed = nn::utils::pack_padded_sequence(x, {4, 2});
  BOOST_CHECK_EXCEPTION(pad_packed_sequence(packed, {.total_length = 3}), Error, says("total_length", "3", "4"));
  const nn::LSTM lstm(3, 2);
  BOOST_CHECK_EXCEPTION(lstm(PackedSequence{}), Error, says("LSTM", "undefined"));
  BOOST_CHECK_EXCEPTION(lstm(PackedSequence{make::ones({3, 3}), {1, 2}}), Error, says("LSTM", "batch_sizes[1]", "2"));
  BOOST_CHECK_EXCEPTION(lstm(PackedSequence{make::ones({3, 3}), {2}}), ShapeError, says("[3, 3]", "2 rows"));
  BOOST_CHECK_EXCEPTION(nn::LSTM(2, 2)(packed), ShapeError, says("LSTM", "[6, 3]", "2"));
  BOOST_CHECK_EXCEPTION(lstm(packed, {make::ones({1, 3, 2}), {}}), ShapeError,
                        says("state.h", "[1, 3, 2]", "[1, 2, 2]"));
  BOOST_CHECK_EXCEPTION(nn::GRU(3, 2)(packed, make::ones({1, 3, 2})), ShapeError, says("GRU", "h_0", "[1, 2, 2]"));
  BOOST_CHECK_EXCEPTION(nn::LSTM(3, 2, {.proj_size = 2}), Error, says("LSTM", "proj_size", "2"));
  BOOST_CHECK_EXCEPTION(nn::utils::pad_sequence({make::ones({2, 2}), make::ones({2, 3})}), ShapeError,
                        says("sequences[1]", "[2, 3]"));
  BOOST_CHECK_EXCEPTION(nn::utils::pack_sequence({}), Error, says("pad_sequence", "none"));
}

BOOST_AUTO_TEST_SUITE_END()
