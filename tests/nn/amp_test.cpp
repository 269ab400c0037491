// Autocast and GradScaler, beside PyTorch's.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <thread>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/checkpoint.h"
#include "tendril/autograd/function.h"
#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/nn/attention.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/optim/grad_scaler.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/rnn.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(amp)

using namespace tendril;
using tendril::testing::difference;
using tendril::testing::says;
namespace raw = tendril::raw;

namespace {

const tendril::testing::Golden& golden() {
  static const tendril::testing::Golden file(TENDRIL_TEST_DATA "/amp.txt");
  return file;
}

struct HalfType {
  DType dtype;
  const char* name;
  double unit;
};
const HalfType kHalves[] = {{kBFloat16, "bfloat16", 0x1p-8}, {kFloat16, "float16", 0x1p-11}};

}  // namespace

BOOST_AUTO_TEST_CASE(results_have_the_dtypes_of_pytorchs) {
  for (const HalfType& half : kHalves) {
    const Tensor x = make::ones({4, 8}), w = make::ones({8, 8}), b = make::ones({8}), image = make::ones({2, 4, 6, 6});
    const Tensor target = make::zeros({4}, kInt64), four = make::ones({4}), batch = x.unsqueeze(0);
    const Tensor h = x.to(half.dtype), d = x.to(kFloat64), half_image = image.to(half.dtype);
    const std::map<std::string, std::function<Tensor()>> calls = {
        {"mm", [&] { return x.mm(w); }},
        {"matmul", [&] { return x.matmul(w); }},
        {"bmm", [&] { return batch.bmm(w.unsqueeze(0)); }},
        {"dot", [&] { return b.dot(b); }},
        {"linear", [&] { return tendril::linear(x, w, b); }},
        {"addmm", [&] { return addmm(b, x, w); }},
        {"baddbmm", [&] { return baddbmm(batch, batch, w.unsqueeze(0)); }},
        {"einsum",
         [&] {
           return einsum("ij,jk->ik", {x, w});
         }},
        {"conv2d",
         [&] {
           return conv2d(image, make::ones({3, 4, 3, 3}));
         }},
        {"attention", [&] { return scaled_dot_product_attention(batch, batch, batch); }},
        {"prelu", [&] { return prelu(x, make::ones({1})); }},
        {"mm.mixed", [&] { return h.mm(w); }},
        {"mm.d", [&] { return d.mm(w.to(kFloat64)); }},
        {"lstm", [&] { return nn::LSTM(8, 3)(x).output; }},
        {"gru", [&] { return nn::GRU(8, 3)(x).output; }},
        {"mha", [&] { return nn::MultiheadAttention(8, 2)(x, x, x).output; }},
        {"softmax", [&] { return x.softmax(-1); }},
        {"softmax.h", [&] { return h.softmax(-1); }},
        {"layer_norm.h", [&] { return tendril::layer_norm(h, {8}, b, b); }},
        {"group_norm.h", [&] { return group_norm(half_image, 2); }},
        {"batch_norm.h", [&] { return tendril::batch_norm(half_image, four.clone(), four.clone(), four, four, true); }},
        {"cross_entropy.h", [&] { return cross_entropy(h, target); }},
        {"cross_entropy.d", [&] { return cross_entropy(d, target); }},
        {"nll_loss.h", [&] { return nll_loss(h, target); }},
        {"mse_loss.h", [&] { return mse_loss(h, h); }},
        {"l1_loss.h", [&] { return l1_loss(h, h); }},
        {"bce.h", [&] { return binary_cross_entropy(h, h); }},
        {"bce_with_logits.h", [&] { return binary_cross_entropy_with_logits(h, h); }},
        {"smooth_l1_loss.h", [&] { return smooth_l1_loss(h, h); }},
        {"huber_loss.h", [&] { return huber_loss(h, h); }},
        {"kl_div.h", [&] { return kl_div(h, h); }},
        {"cosine_embedding_loss.h", [&] { return cosine_embedding_loss(h, h, four); }},
        {"triplet_margin_loss.h", [&] { return triplet_margin_loss(h, h, h); }},
        {"prod.h", [&] { return h.prod(); }},
        {"sum.h", [&] { return h.sum(); }},
        {"cumsum.h", [&] { return h.cumsum(0); }},
        {"norm.h", [&] { return h.norm(); }},
        {"exp.h", [&] { return h.exp(); }},
        {"gelu.h", [&] { return h.gelu(); }},
        {"cat",
         [&] {
           return cat({h, x}, 0);
         }},
        {"add", [&] { return h + x; }},
        {"max_pool2d.h", [&] { return max_pool2d(half_image, 2); }},
    };
    for (const auto& [name, call] : calls) {
      const Autocast mixed(half.dtype);
      const auto expected =
          static_cast<DType>(golden().get(std::string("dtype.") + half.name + "." + name).item<int64_t>());
      BOOST_TEST(call().dtype() == expected, name << " in " << half.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_network_has_pytorchs_loss_and_gradients_in_float32) {
  const Tensor x = golden().get("net.x", kFloat32), target = golden().get("net.target");
  for (const HalfType& half : kHalves) {
    std::map<std::string, Tensor> p;
    for (const char* key : {"w0", "b0", "w1", "b1"}) {
      p[key] = golden().get(std::string("net.") + key, kFloat32).requires_grad_();
    }
    const std::string prefix = std::string("net.") + half.name + ".";
    Tensor scores, loss;
    {
      const Autocast mixed(half.dtype);
      scores = tendril::linear(linear(x, p["w0"], p["b0"]).relu(), p["w1"], p["b1"]);
      loss = cross_entropy(scores, target);
    }
    loss.backward();
    const auto close = [&](const Tensor& got, const std::string& key) {
      const Tensor expected = golden().get(prefix + key);
      const double largest = expected.abs().max().item<double>();
      // A rounding more or less on the way to each number, of which a few are added up.
      BOOST_TEST(difference(got, expected, 4 * half.unit, 4 * half.unit * largest) == "", key << " in " << half.name);
    };
    BOOST_TEST(scores.dtype() == half.dtype);
    BOOST_TEST(loss.dtype() == kFloat32);
    close(scores, "scores");
    close(loss, "loss");
    for (const auto& [key, leaf] : p) {
      BOOST_TEST(leaf.grad().dtype() == kFloat32);
      close(leaf.grad(), "d" + key);
    }
  }
}

BOOST_AUTO_TEST_CASE(guards_nest_and_are_the_threads_own) {
  const Tensor x = make::ones({2, 2}), w = make::ones({2, 2});
  BOOST_TEST(!autograd::autocast_state().enabled);
  {
    const Autocast mixed;
    BOOST_TEST(x.mm(w).dtype() == kBFloat16);
    {
      const Autocast off({.enabled = false});
      BOOST_TEST(x.mm(w).dtype() == kFloat32);
      const Autocast other(kFloat16);
      BOOST_TEST(x.mm(w).dtype() == kFloat16);
    }
    BOOST_TEST(x.mm(w).dtype() == kBFloat16);
    const autograd::AutocastOptions here = autograd::autocast_state();
    DType elsewhere = kInt64, carried = kInt64;
    std::jthread([&] {
      elsewhere = x.mm(w).dtype();
      const Autocast same(here);
      carried = x.mm(w).dtype();
    }).join();
    BOOST_TEST(elsewhere == kFloat32);
    BOOST_TEST(carried == kBFloat16);
  }
  BOOST_TEST(x.mm(w).dtype() == kFloat32);
  BOOST_CHECK_EXCEPTION(const Autocast wrong(kFloat32), DTypeError,
                        says("Autocast", "dtype", "float32", "bfloat16 or float16"));
  BOOST_TEST(x.mm(w).dtype() == kFloat32);
}

BOOST_AUTO_TEST_CASE(a_parameter_is_cast_once_until_it_changes) {
  const Tensor x = make::ones({1, 2}, kBFloat16);
  Tensor w = make::ones({3, 2}).requires_grad_();
  const auto cast_of = [](const Tensor& y) { return autograd::gradient_edge(y).node->edges()[1].node.get(); };
  const Autocast mixed;
  const Tensor first = tendril::linear(x, w), second = tendril::linear(x, w);
  BOOST_TEST(cast_of(first) == cast_of(second));
  {
    const Autocast no_cache({.cache = false});
    const Tensor third = tendril::linear(x, w);
    BOOST_TEST(cast_of(third) != cast_of(first));
  }
  {
    const NoGrad no_grad;
    w.mul_(2);
  }
  const Tensor changed = tendril::linear(x, w);
  BOOST_TEST(cast_of(changed) != cast_of(first));
  BOOST_TEST(changed[0][0].item<double>() == 4);
  (first.sum() + changed.sum()).backward();
  BOOST_TEST(w.grad().dtype() == kFloat32);
  BOOST_TEST(w.grad()[0][0].item<double>() == 2);
}

BOOST_AUTO_TEST_CASE(a_cast_that_nobody_recorded_is_made_anew_where_it_is) {
  const Tensor x = make::ones({1, 2}), w = make::ones({3, 2}).requires_grad_();
  const Autocast mixed;
  {
    const NoGrad no_grad;
    BOOST_TEST(!tendril::linear(x, w).requires_grad());
  }
  tendril::linear(x, w).sum().backward();
  BOOST_TEST(w.grad()[0][0].item<double>() == 1);
}

namespace {

struct Squares : autograd::Function<Squares> {
  static Tensor forward(autograd::FunctionContext& ctx, const Tensor& x) {
    ctx.save_for_backward({x});
    return x.mm(x);
  }
  static std::vector<Tensor> backward(autograd::FunctionContext& ctx, const std::vector<Tensor>& grads) {
    const Tensor x = ctx.saved_tensors()[0];
    seen = x.mm(x).dtype();
    return {grads[0].to(kFloat32)};
  }
  static inline DType seen = kInt64;
};

}  // namespace

BOOST_AUTO_TEST_CASE(backward_computes_as_forward_did_wherever_it_runs) {
  const double fine = 1 + 0x1p-12;  // more digits than a half type has
  const Tensor x = make::full({2, 2}, 1).requires_grad_(), w = make::full({2, 2}, fine);
  const Tensor outside = x.mm(w).sum();
  {
    const Autocast mixed;
    outside.backward();
  }
  BOOST_TEST(x.grad()[0][0].item<double>() == 2 * fine);
  Tensor y;
  {
    const Autocast mixed;
    y = Squares::apply(x);
  }
  y.sum().backward();
  BOOST_TEST(Squares::seen == kBFloat16);
  const Tensor z = Squares::apply(x);
  const Autocast mixed;
  z.sum().backward();
  BOOST_TEST(Squares::seen == kFloat32);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_runs_again_within_the_autocast_of_the_first_time) {
  const Tensor x = make::full({2, 2}, 1 + 0x1p-12).requires_grad_(), w = make::full({2, 2}, 3).requires_grad_();
  Tensor y;
  {
    const Autocast mixed;
    y = autograd::checkpoint([&](const Tensor& h) { return h.mm(w).mm(w); }, x);
  }
  y.sum().backward();
  BOOST_TEST(x.grad()[0][0].item<double>() == 36);
  BOOST_TEST(w.grad().dtype() == kFloat32);
}

BOOST_AUTO_TEST_CASE(the_scale_and_the_steps_are_pytorchs) {
  const auto bad = golden().get("scaler.bad").to_vector<int64_t>();
  const Tensor scales = golden().get("scaler.scales"), values = golden().get("scaler.values");
  const Tensor p = make::from_data(std::vector<float>{1, 2}, {2}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 0.125});
  optim::GradScaler scaler({.init_scale = 8, .growth_factor = 2, .backoff_factor = 0.25, .growth_interval = 2});
  for (std::size_t i = 0; i < bad.size(); ++i) {
    sgd.zero_grad();
    const float second = bad[i] ? std::numeric_limits<float>::infinity() : 0.5F;
    scaler.scale((p * make::from_data(std::vector<float>{1, second}, {2})).sum()).backward();
    BOOST_TEST(scaler.step(sgd) == !bad[i]);
    scaler.update();
    BOOST_TEST(scaler.get_scale() == scales[static_cast<int64_t>(i)].item<double>(), "step " << i);
    BOOST_TEST(difference(p, values[static_cast<int64_t>(i)], 0) == "", "step " << i);
  }
  const StateDict dict = scaler.state_dict();
  BOOST_TEST(dict.at("_growth_tracker").item<int64_t>() == golden().get("scaler.tracker").item<int64_t>());
  optim::GradScaler other;
  other.load_state_dict(dict);
  BOOST_TEST(other.get_scale() == scaler.get_scale());
  BOOST_TEST(other.options().growth_interval == 2);
  StateDict wrong = dict.clone();
  raw::fill_(wrong.at("growth_factor"), 0.5);
  raw::fill_(wrong.at("scale"), 3);
  BOOST_CHECK_EXCEPTION(other.load_state_dict(wrong), Error,
                        says("GradScaler::load_state_dict", "growth_factor", "0.5"));
  BOOST_TEST(other.get_scale() == scaler.get_scale());
}

BOOST_AUTO_TEST_CASE(a_half_loss_is_scaled_in_float32_and_gradients_may_be_looked_at_unscaled) {
  const Tensor p = make::ones({3}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1});
  optim::GradScaler scaler;
  const Tensor loss = p.to(kFloat16).sum();
  BOOST_TEST(scaler.scale(loss).dtype() == kFloat32);
  BOOST_TEST(scaler.scale(loss).item<double>() == 3 * 65536);
  scaler.scale(p.sum()).backward();
  scaler.unscale_(sgd);
  BOOST_TEST(p.grad()[0].item<double>() == 1);
  BOOST_TEST(scaler.step(sgd));
  BOOST_TEST(p[0].item<double>() == 0);
  scaler.update(32.);
  BOOST_TEST(scaler.get_scale() == 32);
}

BOOST_AUTO_TEST_CASE(gradients_that_share_memory_are_not_unscaled_in_place) {
  const Tensor p = make::ones({3}).requires_grad_();
  p.set_grad(raw::expand(make::full({1}, 65536, kFloat32), {3}));
  optim::SGD sgd({p}, {.lr = 1});
  optim::GradScaler scaler;
  BOOST_CHECK_EXCEPTION(scaler.step(sgd), Error, says("single memory location"));
  BOOST_TEST(p.grad()[0].item<double>() == 65536);
}

BOOST_AUTO_TEST_CASE(a_scaler_that_is_used_out_of_order_says_so) {
  const Tensor p = make::ones({3}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1});
  optim::GradScaler scaler;
  BOOST_CHECK_EXCEPTION(scaler.update(), Error, says("GradScaler::update", "no optimizer"));
  BOOST_CHECK_EXCEPTION(scaler.step(sgd), Error, says("GradScaler::step", "no parameter has a gradient"));
  scaler.scale(p.sum()).backward();
  scaler.unscale_(sgd);
  BOOST_CHECK_EXCEPTION(scaler.unscale_(sgd), Error, says("GradScaler::unscale_", "once"));
  scaler.step(sgd);
  BOOST_CHECK_EXCEPTION(scaler.step(sgd), Error, says("GradScaler::step", "once"));
  BOOST_CHECK_EXCEPTION(scaler.unscale_(sgd), Error, says("GradScaler::unscale_", "after step"));
  BOOST_CHECK_EXCEPTION(scaler.update(-1.), Error, says("new_scale", "-1"));
  scaler.update();
  const Tensor half = make::ones({3}, kFloat16).requires_grad_();
  optim::SGD of_half({half}, {.lr = 1});
  half.sum().backward();
  BOOST_CHECK_EXCEPTION(scaler.unscale_(of_half), DTypeError, says("GradScaler::unscale_", "parameter 0", "float16"));
  BOOST_TEST(half.grad()[0].item<double>() == 1);
  BOOST_CHECK_EXCEPTION(optim::GradScaler({.growth_factor = 1}), Error, says("growth_factor", "above 1"));
  BOOST_CHECK_EXCEPTION(optim::GradScaler({.backoff_factor = 1}), Error, says("backoff_factor"));
  BOOST_CHECK_EXCEPTION(optim::GradScaler({.growth_interval = 0}), Error, says("growth_interval"));
  BOOST_CHECK_EXCEPTION(optim::GradScaler({.init_scale = 0}), Error, says("init_scale"));
  optim::GradScaler off({.enabled = false});
  BOOST_TEST(off.scale(p).is_same(p));
  BOOST_TEST(off.step(sgd));
  off.update();
  BOOST_TEST(off.state_dict().empty());
}

BOOST_AUTO_TEST_CASE(a_scale_and_its_inverse_are_finite_in_float32) {
  BOOST_CHECK_EXCEPTION(optim::GradScaler({.init_scale = 1e300}), Error, says("init_scale", "float32"));
  BOOST_CHECK_EXCEPTION(optim::GradScaler({.init_scale = 1e-60}), Error, says("init_scale", "float32"));
  const Tensor p = make::ones({1}).requires_grad_();
  optim::SGD sgd({p}, {.lr = 1});
  optim::GradScaler scaler;
  StateDict tiny = scaler.state_dict().clone();
  raw::fill_(tiny.at("scale"), 1e-60);
  BOOST_CHECK_EXCEPTION(scaler.load_state_dict(tiny), Error, says("init_scale", "float32"));
  BOOST_TEST(scaler.get_scale() == 65536);
  for (int i = 0; i < 200; ++i) {  // enough for any number to become 0 by halves
    sgd.zero_grad();
    scaler.scale((p * std::numeric_limits<double>::infinity()).sum()).backward();
    BOOST_TEST(!scaler.step(sgd));
    scaler.update();
  }
  BOOST_CHECK_EXCEPTION(scaler.update(1e39), Error, says("new_scale", "float32"));
  sgd.zero_grad();
  scaler.scale(p.sum()).backward();
  BOOST_TEST(scaler.step(sgd));
  BOOST_TEST(std::abs(p.item<double>()) < 1e-6);  // 1 - 1
}

BOOST_AUTO_TEST_SUITE_END()
