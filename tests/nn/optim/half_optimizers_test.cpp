// Optimizers of bfloat16 and float16 parameters: their state is float32, and so are master weights.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adagrad.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/adamax.h"
#include "tendril/nn/optim/lbfgs.h"
#include "tendril/nn/optim/lion.h"
#include "tendril/nn/optim/rmsprop.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/make.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(half_optimizers)

namespace raw = tendril::raw;
using namespace tendril;
using namespace tendril::optim;
using tendril::testing::difference;
using tendril::testing::says;
using tendril::testing::test_seed;

namespace {

constexpr int64_t kSize = 700;  // several blocks of a kernel and a rest

double unit_of(DType dtype) { return dtype == kFloat16 ? 0x1p-11 : 0x1p-8; }

/// A parameter of a half type, the same values in float32, and gradients that both have.
struct Both {
  explicit Both(DType half, uint64_t seed = test_seed()) : generator(seed) {
    const Tensor values = make::empty({kSize}, kFloat32);
    raw::uniform_(values, 0.5, 2, generator);
    narrow = raw::cast(values, half).requires_grad_();
    wide = raw::clone(raw::cast(narrow, kFloat32)).requires_grad_();
  }
  /// The next gradient, of `half`.
  Tensor gradient() {
    const Tensor g = make::empty({kSize}, kFloat32);
    raw::normal_(g, 0.1, 1, generator);
    return raw::cast(g, narrow.dtype());
  }
  Generator generator;
  Tensor narrow, wide;
};

using Make = std::function<std::unique_ptr<Optimizer>(const Tensor&, bool master)>;
template <class O, class Options>
Make make_of(Options options) {
  return [options](const Tensor& param, bool master) {
    Options own = options;
    own.master_weights = master;
    return std::make_unique<O>(std::vector<Tensor>{param}, own);
  };
}

struct Kind {
  const char* name;
  Make make;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"SGD", make_of<SGD>(SGDOptions{.lr = 1e-3, .momentum = 0.9, .weight_decay = 0.01})},
      {"Adam", make_of<Adam>(AdamOptions{.lr = 1e-4})},
      {"Adam, amsgrad", make_of<Adam>(AdamOptions{.lr = 1e-4, .weight_decay = 0.1, .amsgrad = true})},
      {"AdamW", make_of<AdamW>(AdamWOptions{.lr = 1e-4})},
      {"RMSprop", make_of<RMSprop>(RMSpropOptions{.lr = 1e-4})},
      {"RMSprop, centred", make_of<RMSprop>(RMSpropOptions{.lr = 1e-5, .momentum = 0.9, .centered = true})},
      {"Adagrad", make_of<Adagrad>(AdagradOptions{.lr = 1e-3, .initial_accumulator_value = 0.1})},
      {"Adamax", make_of<Adamax>(AdamaxOptions{.lr = 1e-4})},
      {"Lion", make_of<Lion>(LionOptions{.lr = 1e-4, .weight_decay = 0.1})}};
  return all;
}

/// The tensors of state in a dict, without numbers and options.
std::vector<std::pair<std::string, Tensor>> tensors_of(const StateDict& dict) {
  std::vector<std::pair<std::string, Tensor>> found;
  for (const auto& [name, tensor] : dict) {
    if (name.starts_with("state.") && tensor.dim() == 1) found.emplace_back(name, tensor);
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(state_follows_that_of_float32_parameters) {
  for (const DType half : {kBFloat16, kFloat16}) {
    for (const auto& [name, make] : kinds()) {
      BOOST_TEST_CONTEXT(name << " of " << half) {
        Both both(half);
        const auto narrow = make(both.narrow, true), wide = make(both.wide, false);
        for (int step = 0; step < 100; ++step) {
          const Tensor g = both.gradient();
          narrow->step({g});
          wide->step({raw::cast(g, kFloat32)});
        }
        const StateDict mine = narrow->state_dict();
        BOOST_TEST(!tensors_of(wide->state_dict()).empty());
        for (const auto& [entry, expected] : tensors_of(wide->state_dict())) {
          BOOST_TEST((mine.at(entry).dtype() == kFloat32));
          BOOST_TEST(difference(mine.at(entry), expected, 1e-5, 1e-6) == "", entry);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(adams_average_of_squares_comes_to_the_square) {
  for (const DType half : {kBFloat16, kFloat16}) {
    const Tensor p = raw::zeros({3}, half, default_device()).requires_grad_();
    const Tensor one = raw::ones({3}, half, default_device());
    Adam adam({p}, {.lr = 1e-4});
    for (int step = 0; step < 5000; ++step) adam.step({one});
    const double expected = 1 - std::pow(0.999, 5000);
    BOOST_TEST(difference(adam.state(p).exp_avg_sq, make::full({3}, expected, kFloat64), 1e-4) == "", half);
    BOOST_TEST(difference(adam.state(p).exp_avg, make::full({3}, 1, kFloat64), 1e-4) == "", half);
  }
}

BOOST_AUTO_TEST_CASE(a_step_is_as_long_as_in_float32) {
  for (const DType half : {kBFloat16, kFloat16}) {
    // Squares of these are below the smallest float16.
    const Tensor g = raw::cast(make::full({2}, 1e-4), half), p = raw::zeros({2}, half, default_device());
    const Tensor wide = make::zeros({2}, kFloat32);
    p.requires_grad_();
    wide.requires_grad_();
    Adam narrow({p}, {.lr = 0.01}), exact({wide}, {.lr = 0.01});
    narrow.step({g});
    exact.step({raw::cast(g, kFloat32)});
    BOOST_TEST(difference(p, wide, unit_of(half)) == "", half);
  }
}

BOOST_AUTO_TEST_CASE(master_weights_follow_a_float32_trajectory) {
  for (const DType half : {kBFloat16, kFloat16}) {
    for (const auto& [name, make] : kinds()) {
      BOOST_TEST_CONTEXT(name << " of " << half) {
        Both both(half);
        const auto narrow = make(both.narrow, true), wide = make(both.wide, false);
        BOOST_TEST(!narrow->master_weight(both.narrow).defined());
        for (int step = 0; step < 100; ++step) {
          const Tensor g = both.gradient();
          narrow->step({g});
          wide->step({raw::cast(g, kFloat32)});
        }
        const Tensor master = narrow->master_weight(both.narrow);
        BOOST_TEST((master.dtype() == kFloat32));
        BOOST_TEST(difference(master, both.wide, 1e-5, 1e-6) == "");
        BOOST_TEST(raw::equal(both.narrow.detach(), raw::cast(master, half)));
        BOOST_TEST(!wide->master_weight(both.wide).defined());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(steps_below_a_rounding_add_up_in_master_weights) {
  for (const bool master : {false, true}) {
    const Tensor p = raw::ones({2}, kBFloat16, default_device()).requires_grad_();
    SGD sgd({p}, {.lr = 1e-4, .master_weights = master});
    for (int step = 0; step < 1000; ++step) sgd.step({raw::ones({2}, kBFloat16, default_device())});
    BOOST_TEST(p.to_vector<double>()[0] == (master ? 0.8984375 : 1.0));  // 0.9, rounded
  }
}

BOOST_AUTO_TEST_CASE(a_parameter_that_is_written_is_taken_over) {
  const Tensor one = raw::ones({4}, kBFloat16, default_device());
  nn::Linear other(4, 1, {.bias = false, .dtype = kBFloat16}), linear(4, 1, {.bias = false, .dtype = kBFloat16});
  const Tensor& p = linear.weight;
  raw::fill_(p, 1);
  SGD sgd({p}, {.lr = 1e-3, .master_weights = true});
  const auto step = [&] { sgd.step({raw::view(one, {1, 4})}); };
  step();
  raw::fill_(raw::select(raw::view(p, {4}), 0, 2), 5);  // one element: the others keep their digits
  step();
  BOOST_TEST(difference(raw::view(sgd.master_weight(p), {4}),
                        make::from_data(std::vector<double>{0.998, 0.998, 4.999, 0.998}, {4}), 1e-6) == "");
  raw::fill_(other.weight, 3);
  linear.load_state_dict(other.state_dict());
  step();
  BOOST_TEST(difference(sgd.master_weight(p), make::full({1, 4}, 2.999, kFloat64), 1e-6) == "");
  BOOST_TEST(raw::equal(p.detach(), make::full({1, 4}, 3, kBFloat16)));
}

BOOST_AUTO_TEST_CASE(saved_masters_and_state_go_on_where_they_were) {
  for (const auto& [name, make] : kinds()) {
    BOOST_TEST_CONTEXT(name) {
      Both first(kBFloat16), second(kBFloat16, test_seed(1));
      const auto saved = make(first.narrow, true), resumed = make(second.narrow, false);
      for (int step = 0; step < 3; ++step) saved->step({first.gradient()});
      const StateDict dict = saved->state_dict().clone();
      BOOST_TEST(dict.at("param_groups.0.master_weights").item<bool>());
      BOOST_TEST((dict.at("state.0.master_weight").dtype() == kFloat32));
      raw::copy_(second.narrow, first.narrow);
      resumed->load_state_dict(dict);
      for (int step = 0; step < 3; ++step) {
        const Tensor g = first.gradient();
        saved->step({g});
        resumed->step({g});
      }
      BOOST_TEST(raw::equal(first.narrow.detach(), second.narrow.detach()));
      BOOST_TEST(raw::equal(saved->master_weight(first.narrow), resumed->master_weight(second.narrow)));
    }
  }
}

BOOST_AUTO_TEST_CASE(state_that_was_saved_in_half_becomes_float32) {
  for (const auto& [name, make] : kinds()) {
    BOOST_TEST_CONTEXT(name) {
      Both both(kFloat16);
      const auto optimizer = make(both.narrow, false), loaded = make(both.narrow, true);
      optimizer->step({both.gradient()});
      StateDict old;
      for (const auto& [entry, tensor] : optimizer->state_dict()) {
        old.insert(entry, tensor.dim() == 1 && is_floating(tensor.dtype()) ? raw::cast(tensor, kFloat16) : tensor);
      }
      BOOST_TEST(!old.contains("param_groups.0.master_weights"));
      loaded->load_state_dict(old);  // keeps the option
      for (const auto& [entry, tensor] : tensors_of(loaded->state_dict())) {
        BOOST_TEST((tensor.dtype() == kFloat32), entry);
        BOOST_TEST(raw::equal(tensor, raw::cast(old.at(entry), kFloat32)), entry);
      }
      loaded->step({both.gradient()});
      BOOST_TEST(loaded->master_weight(both.narrow).defined());
    }
  }
  const Tensor p = make::zeros({2}, kFloat32);
  Adam wide({p});
  StateDict dict = wide.state_dict();
  dict.insert("state.0.master_weight", make::zeros({2}, kFloat32));
  BOOST_CHECK_EXCEPTION(wide.load_state_dict(dict), Error, says("unexpected: state.0.master_weight"));
  Adam narrow({raw::cast(p, kFloat16)});
  StateDict wrong = narrow.state_dict();
  wrong.insert("state.0.master_weight", make::zeros({3}, kFloat32));
  BOOST_CHECK_EXCEPTION(narrow.load_state_dict(wrong), Error, says("state.0.master_weight: got shape [3]"));
}

BOOST_AUTO_TEST_CASE(masters_end_with_the_option) {
  const Tensor p = raw::ones({2}, kBFloat16, default_device()).requires_grad_(), one = raw::ones({2}, kBFloat16);
  SGD sgd({p}, {.lr = 1e-3, .master_weights = true});
  const auto step = [&] { sgd.step({raw::to(one, default_device())}); };
  step();
  sgd.set_options(0, {.lr = 1e-3});
  step();
  BOOST_TEST(!sgd.master_weight(p).defined());
  BOOST_TEST(p.to_vector<double>()[0] == 1);
  BOOST_CHECK_EXCEPTION((void)sgd.master_weight(one), Error, says("SGD::master_weight", "not one of"));
}

BOOST_AUTO_TEST_CASE(threads_share_a_large_parameter) {
  constexpr int64_t kLarge = 200'001, kPart = 70'123;
  Generator generator(test_seed());
  const Tensor values = make::empty({kLarge}, kFloat32);
  raw::uniform_(values, -1, 1, generator);
  const Tensor whole = raw::cast(values, kFloat16), first = raw::clone(raw::narrow(whole, 0, 0, kPart)),
               rest = raw::clone(raw::narrow(whole, 0, kPart, kLarge - kPart)), g = raw::clone(whole);
  const AdamOptions options{.lr = 1e-3, .master_weights = true};
  Adam one({whole}, options), two({first, rest}, options);
  for (int step = 0; step < 3; ++step) {
    one.step({g});
    two.step({raw::narrow(g, 0, 0, kPart), raw::narrow(g, 0, kPart, kLarge - kPart)});
  }
  BOOST_TEST(difference(raw::narrow(whole, 0, 0, kPart), first, 0x1p-10, 0x1p-24) == "");
  BOOST_TEST(difference(raw::narrow(whole, 0, kPart, kLarge - kPart), rest, 0x1p-10, 0x1p-24) == "");
  BOOST_TEST(difference(raw::narrow(one.master_weight(whole), 0, kPart, kLarge - kPart), two.master_weight(rest), 1e-6,
                        1e-7) == "");
}

BOOST_AUTO_TEST_CASE(parameters_with_gaps_have_masters_too) {
  const Tensor matrix = raw::ones({3, 2}, kBFloat16, default_device());
  const Tensor column = raw::select(matrix, 1, 1).requires_grad_();
  Adam adam({column}, {.lr = 1e-3, .master_weights = true});
  for (int step = 0; step < 20; ++step) adam.step({raw::ones({3}, kBFloat16, default_device())});
  BOOST_TEST(difference(adam.master_weight(column), make::full({3}, 0.98, kFloat64), 1e-4) == "");
  BOOST_TEST(difference(column, make::full({3}, 0.98, kFloat64), 0x1p-8) == "");
  BOOST_TEST(raw::equal(raw::select(matrix, 1, 0), raw::ones({3}, kBFloat16, default_device())));
}

BOOST_AUTO_TEST_CASE(lbfgs_has_float32_vectors_and_masters) {
  for (const bool master : {false, true}) {
    Both both(kBFloat16);
    const LBFGSOptions options{.lr = 0.01, .max_iter = 3, .tolerance_grad = 0, .tolerance_change = 0};
    LBFGSOptions narrow_options = options;
    narrow_options.master_weights = master;
    LBFGS narrow({both.narrow}, narrow_options), wide({both.wide}, options);
    // Gradients that do not depend on the parameters: the trajectories differ by roundings alone.
    const auto closure = [&](const Tensor& param, uint64_t seed) {
      return [&param, seed, calls = std::make_shared<int>(0), half = both.narrow.dtype()]() {
        Both numbers(half, seed + static_cast<uint64_t>(++*calls));
        const Tensor g = numbers.gradient();
        Tensor(param).set_grad(raw::cast(g, param.dtype()));
        return make::full({}, -static_cast<double>(*calls), kFloat32);
      };
    };
    const auto f = closure(both.narrow, test_seed()), g = closure(both.wide, test_seed());
    for (int step = 0; step < 5; ++step) {
      narrow.step(f);
      wide.step(g);
    }
    const StateDict mine = narrow.state_dict(), theirs = wide.state_dict();
    for (const char* entry : {"state.0.d", "state.0.prev_flat_grad"}) {
      BOOST_TEST((mine.at(entry).dtype() == kFloat32));
      BOOST_TEST(difference(mine.at(entry), theirs.at(entry), 1e-5, 1e-6) == "", entry);
    }
    BOOST_TEST(narrow.master_weight(both.narrow).defined() == master);
    if (master) {
      BOOST_TEST(difference(narrow.master_weight(both.narrow), both.wide, 1e-5, 1e-6) == "");
      BOOST_TEST(difference(both.narrow, both.wide, 0x1p-8) == "");
      Both other(kBFloat16, test_seed(1));
      LBFGS resumed({other.narrow});
      resumed.load_state_dict(mine);
      BOOST_TEST(resumed.options().master_weights);
      BOOST_TEST(raw::equal(resumed.master_weight(other.narrow), narrow.master_weight(both.narrow)));
      raw::fill_(both.narrow, 2);  // taken over
      narrow.step(f);
      BOOST_TEST(difference(narrow.master_weight(both.narrow), make::full({kSize}, 2, kFloat64), 0.5) == "");
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
