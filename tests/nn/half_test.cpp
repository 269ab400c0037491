// Layers, losses and optimizers in bfloat16 and float16: computed in float and rounded once, as near to PyTorch as
// PyTorch's own roundings let it.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/optim/adagrad.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/adamax.h"
#include "tendril/nn/optim/lion.h"
#include "tendril/nn/optim/rmsprop.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/rnn.h"
#include "tendril/nn/transformer.h"
#include "tendril/tensor/raw.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(half)

namespace raw = tendril::raw;
using namespace tendril;
using tendril::testing::difference;
using tendril::testing::test_seed;

namespace {

struct HalfType {
  DType dtype;
  const char* name;
  double unit;  ///< how far a number may be from what it was before it was rounded
};
const HalfType kHalves[] = {{kBFloat16, "bfloat16", 0x1p-8}, {kFloat16, "float16", 0x1p-11}};

const tendril::testing::Golden& golden() {
  static const tendril::testing::Golden file(TENDRIL_TEST_DATA "/half.txt");
  return file;
}

using Inputs = std::vector<Tensor>;
struct Case {
  std::string name;
  std::vector<std::string> inputs;
  std::function<Tensor(const Inputs&)> f;
  double roundings = 1;   ///< of what is made of several roundings on the way
  double pytorchs = 2.1;  ///< roundings between PyTorch and us: one of each, unless PyTorch makes more
  double largest = 0;     ///< how many of the largest number beside come on top: of gradients by a rounded result
};

/// The difference of a result in roundings of `half`: each element's own, and as much of the largest beside it as float
/// sums may be off (2^-20).
std::string compare(const Tensor& got, const std::string& name, double roundings, const HalfType& half,
                    double of_largest = 0) {
  const Tensor expected = golden().get(name);
  const double largest = expected.numel() == 0 ? 0 : expected.abs().max().item<double>();
  // Below the smallest normal number of float16 (2^-14) it is as far from one number to the next as there.
  const double least = half.dtype == kFloat16 ? 0x1p-25 : 0;
  return difference(got, expected, roundings * half.unit,
                    largest * (0x1p-20 + of_largest * half.unit) + roundings * least);
}

void check(const Case& c) {
  for (const HalfType& half : kHalves) {
    BOOST_TEST_CONTEXT(c.name << " in " << half.name) {
      Inputs in;
      for (const std::string& key : c.inputs) {
        const Tensor value = golden().get(c.name + "." + key, half.dtype);
        in.push_back(is_floating(value.dtype()) ? Tensor(value).requires_grad_() : value);
      }
      const Tensor y = c.f(in);
      BOOST_TEST((y.dtype() == half.dtype));
      const auto both = [&](const Tensor& got, const std::string& key) {
        BOOST_TEST_CONTEXT(key) {
          BOOST_TEST((got.dtype() == half.dtype));
          // A device rounds between kernels, as PyTorch does.
          if (default_device().is_cpu()) {
            BOOST_TEST(compare(got, c.name + "." + key, c.roundings, half, c.largest) == "");
          }
          // PyTorch's own error is of the largest number beside, where it rounds on the way.
          const Tensor theirs = golden().get(c.name + "." + half.name + "." + key);
          const double largest = theirs.abs().max().item<double>();
          BOOST_TEST(difference(got, theirs, c.pytorchs * half.unit, c.pytorchs * half.unit * largest) == "");
        }
      };
      both(y, "y");
      y.backward(golden().get(c.name + ".g", half.dtype));
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i].requires_grad()) both(in[i].grad(), "d" + c.inputs[i]);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(functions_are_computed_in_float_and_rounded_once) {
  const std::vector<Case> cases = {
      {"linear", {"x", "weight", "bias"}, [](const Inputs& i) { return tendril::linear(i[0], i[1], i[2]); }},
      {"matmul", {"a", "b"}, [](const Inputs& i) { return i[0].matmul(i[1]); }},
      {"conv2d",
       {"x", "weight", "bias"},
       [](const Inputs& i) {
         return conv2d(i[0], i[1], i[2], {.stride = {2, 1}, .padding = {1, 2}, .groups = 2});
       }},
      {"max_pool2d", {"x"}, [](const Inputs& i) { return max_pool2d(i[0], 3, {.stride = 2, .padding = 1}); }},
      {"avg_pool2d", {"x"}, [](const Inputs& i) { return avg_pool2d(i[0], 3, {.stride = 2, .padding = 1}); }},
      {"adaptive_avg_pool2d",
       {"x"},
       [](const Inputs& i) {
         return adaptive_avg_pool2d(i[0], {2, 3});
       }},
      {"batch_norm",
       {"x", "weight", "bias"},
       [](const Inputs& i) { return tendril::batch_norm(i[0], {}, {}, i[1], i[2], true); }},
      {"batch_norm_eval",
       {"x", "weight", "bias"},
       [](const Inputs& i) {
         const DType dtype = i[0].dtype();
         return tendril::batch_norm(i[0], golden().get("batch_norm_eval.mean", dtype),
                                    golden().get("batch_norm_eval.var", dtype), i[1], i[2]);
       }},
      {"layer_norm",
       {"x", "weight", "bias"},
       [](const Inputs& i) { return tendril::layer_norm(i[0], {20}, i[1], i[2]); }},
      {"rms_norm", {"x", "weight"}, [](const Inputs& i) { return rms_norm(i[0], {20}, i[1], 1e-5); }},
      {"group_norm", {"x", "weight", "bias"}, [](const Inputs& i) { return group_norm(i[0], 2, i[1], i[2]); }},
      {"softmax", {"x"}, [](const Inputs& i) { return i[0].softmax(-1); }, 1, 4, 2},
      {"log_softmax", {"x"}, [](const Inputs& i) { return i[0].log_softmax(-1); }, 1, 4, 2},
      {"gelu", {"x"}, [](const Inputs& i) { return i[0].gelu(); }},
      {"cumsum", {"x"}, [](const Inputs& i) { return i[0].cumsum(0); }},
      {"attention", {"q", "k", "v"}, [](const Inputs& i) { return scaled_dot_product_attention(i[0], i[1], i[2]); }},
      {"cross_entropy", {"x", "target"}, [](const Inputs& i) { return cross_entropy(i[0], i[1]); }},
      {"mse_loss", {"x", "target"}, [](const Inputs& i) { return mse_loss(i[0], i[1]); }},
      {"bce_with_logits",
       {"x", "target"},
       [](const Inputs& i) { return binary_cross_entropy_with_logits(i[0], i[1]); }},
      {"embedding", {"index", "weight"}, [](const Inputs& i) { return tendril::embedding(i[0], i[1]); }},
  };
  for (const Case& c : cases) check(c);
}

BOOST_AUTO_TEST_CASE(recurrent_layers_are_rounded_once_not_at_each_step) {
  const std::vector<std::string> keys = {"x", "weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  // PyTorch rounds at every step, and so do its gradients of weights.
  check({"lstm", keys,
         [](const Inputs& i) {
           return lstm_layer(i[0], {i[1], i[2], i[3], i[4]}, {}, {}).output;
         },
         1, 12});
  const auto recurrent = [&](const std::string& name, auto layer) {
    const auto f = [&](const Inputs& i) {
      layer.to(i[0].dtype());
      std::size_t key = 1;
      for (const Tensor& p : layer.parameters()) raw::copy_(p, golden().get(name + "." + keys[key++], p.dtype()));
      return layer(i[0]).output;
    };
    check({name, {"x"}, f, 1, 12});
  };
  recurrent("gru", nn::GRU(3, 4));
  recurrent("rnn", nn::RNN(3, 4));
}

BOOST_AUTO_TEST_CASE(a_long_line_and_its_parameters_are_normalised_piece_by_piece) {
  Generator generator(test_seed());
  const Tensor x64 = make::empty({3, 1300}, kFloat64), w64 = make::empty({1300}, kFloat64), g64 = raw::empty_like(x64);
  for (const Tensor& t : {x64, w64, g64}) raw::uniform_(t, -2, 2, generator);
  for (const HalfType& half : kHalves) {
    for (const DType parameters : {half.dtype, kFloat32}) {
      const auto run = [&](DType dtype, DType of_parameters) {
        const auto leaf = [&](const Tensor& t, DType as) { return t.to(half.dtype).to(as).clone().requires_grad_(); };
        const Tensor x = leaf(x64, dtype), w = leaf(w64, of_parameters), b = leaf(w64, of_parameters);
        const Tensor y = tendril::layer_norm(x, {1300}, w, b);
        y.backward(g64.to(half.dtype).to(dtype));
        const Tensor image = leaf(x64, dtype);  // [3, 1, 1300]: channels of 1300 elements
        const Tensor z = tendril::batch_norm(image.view({1, 3, 1300}), {}, {}, {}, {}, true);
        z.backward(g64.to(half.dtype).to(dtype).view({1, 3, 1300}));
        return Inputs{y, x.grad(), w.grad(), b.grad(), z, image.grad()};
      };
      const Inputs got = run(half.dtype, parameters), exact = run(kFloat64, kFloat64);
      for (std::size_t i = 0; i < got.size(); ++i) {
        BOOST_TEST((got[i].dtype() == (i == 2 || i == 3 ? parameters : half.dtype)));
        const double unit = got[i].dtype() == kFloat32 ? 0x1p-20 : half.unit;
        BOOST_TEST(difference(got[i], exact[i], unit, 0x1p-18) == "", i << " in " << half.name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(running_statistics_are_kept_beside_halves_as_they_are) {
  const Tensor x = golden().get("batch_norm.x", kBFloat16), x64 = golden().get("batch_norm.x");
  const Tensor mean = make::zeros({3}, kFloat64), var = make::ones({3}, kFloat64);
  tendril::batch_norm(x64, mean, var, {}, {}, true);
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const Tensor near_mean = make::zeros({3}, dtype), near_var = make::ones({3}, dtype);
    tendril::batch_norm(x, near_mean, near_var, {}, {}, true);
    const double unit = dtype == kFloat32 ? 0x1p-20 : 0x1p-8;
    BOOST_TEST(difference(near_mean, mean, unit, 0x1p-20) == "");
    BOOST_TEST(difference(near_var, var, unit, 0x1p-20) == "");
  }
  BOOST_CHECK_THROW(tendril::batch_norm(x, make::zeros({3}, kFloat64), make::ones({3}, kFloat64)), DTypeError);
  BOOST_CHECK_THROW(tendril::batch_norm(x64, make::zeros({3}), make::ones({3})), DTypeError);
}

BOOST_AUTO_TEST_CASE(optimizers_step_as_pytorchs_fused_ones) {
  const auto steps = [](const std::string& name, const HalfType& half, double units, auto make) {
    const Tensor p = golden().get("optim.start", half.dtype).requires_grad_();
    auto optimizer = make(std::vector<Tensor>{p});
    for (int i = 0; i < 3; ++i) {
      optimizer.step({golden().get("optim.g" + std::to_string(i), half.dtype)});
      const std::string key = "optim." + name + "." + half.name + ".p" + std::to_string(i);
      BOOST_TEST(difference(p, golden().get(key), units * half.unit, units * half.unit) == "", key);
    }
  };
  using namespace optim;
  for (const HalfType& half : kHalves) {
    // Of the fused ones each step differs in the last digit at most; the others of PyTorch round all on the way.
    steps("SGD", half, 2.1, [](auto p) { return SGD(p, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}); });
    steps("Adam", half, 2.1, [](auto p) { return Adam(p, {.lr = 0.1}); });
    steps("AdamW", half, 2.1, [](auto p) { return AdamW(p, {.lr = 0.1}); });
    steps("Adagrad", half, 2.1, [](auto p) { return Adagrad(p, {.lr = 0.1}); });
    if (half.dtype == kFloat16) continue;  // there PyTorch's eps is 0, and 0 / 0 not 0
    steps("RMSprop", half, 8, [](auto p) { return RMSprop(p, {.lr = 0.1}); });
    steps("Adamax", half, 8, [](auto p) { return Adamax(p, {.lr = 0.1}); });
  }
}

BOOST_AUTO_TEST_CASE(a_transformer_layer_is_pytorchs) {
  nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0, .batch_first = true});
  std::vector<std::string> keys = {"x"};
  for (const auto& [key, parameter] : layer.named_parameters()) keys.push_back(key);
  // Ten roundings on the way to the result, which two normalisations magnify.
  for (const HalfType& half : kHalves) {
    layer.to(half.dtype);
    for (const auto& [key, parameter] : layer.named_parameters()) {
      raw::copy_(parameter, golden().get("encoder." + key, half.dtype));
      Tensor(parameter).zero_grad();
    }
    const Tensor x = golden().get("encoder.x", half.dtype).requires_grad_();
    const Tensor y = layer(x);
    y.backward(golden().get("encoder.g", half.dtype));
    const double units = 24 * half.unit;
    BOOST_TEST(difference(y, golden().get("encoder.y"), units, units) == "", half.name);
    BOOST_TEST(difference(y, golden().get(std::string("encoder.") + half.name + ".y"), units, units) == "", half.name);
    BOOST_TEST(difference(x.grad(), golden().get("encoder.dx"), units, 4 * units) == "", half.name);
    for (const auto& [key, parameter] : layer.named_parameters()) {
      const Tensor exact = golden().get("encoder.d" + key);
      const double largest = exact.abs().max().item<double>();
      BOOST_TEST(difference(parameter.grad(), exact, units, units * largest) == "", key << " in " << half.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(networks_train) {
  Generator generator(test_seed());
  for (const HalfType& half : kHalves) {
    if (!default_device().is_cpu() && half.dtype == kFloat16) continue;  // an emulated device is slow
    nn::ResNet<nn::Bottleneck> net({1, 1, 1, 1},
                                   {.num_classes = 5, .base = 8, .dtype = half.dtype, .generator = generator});
    optim::SGD sgd(net.parameters(), {.lr = 0.05, .momentum = 0.9});
    const Tensor x = make::empty({4, 3, 32, 32}, kFloat32);
    raw::normal_(x, 0, 1, generator);
    const Tensor target = make::from_data(std::vector<int64_t>{0, 1, 2, 3}, {4});
    double first = 0, last = 0;
    for (int step = 0; step < 12; ++step) {
      sgd.zero_grad();
      const Tensor loss = cross_entropy(net(x.to(half.dtype)), target);
      loss.backward();
      sgd.step();
      last = loss.item<double>();
      if (step == 0) first = last;
    }
    BOOST_TEST(last < 0.5 * first, half.name << ": from " << first << " to " << last);
  }
}

BOOST_AUTO_TEST_SUITE_END()
