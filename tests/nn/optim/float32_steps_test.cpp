// Optimizers in float32 against themselves in float64, over random shapes and options, on one thread and on three.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "tendril/nn/optim/adagrad.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/adamax.h"
#include "tendril/nn/optim/lion.h"
#include "tendril/nn/optim/rmsprop.h"
#include "tendril/nn/optim/sgd.h"
#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(float32_steps)

using namespace tendril;
using namespace tendril::testing;

namespace {

bool coin() { return roll(0, 1) == 1; }
/// One of a few numbers, of which 0 is another path.
double either(double number) { return coin() ? number : 0; }

using Make = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;
template <class Optimizer, class Options>
Make make(const Options& options) {
  return [options](const std::vector<Tensor>& params) { return std::make_unique<Optimizer>(params, options); };
}

struct Row {
  const char* name;
  Make (*with_random_options)();
};
const Row kRows[] = {
    {"SGD",
     [] {
       const double momentum = either(0.9);
       const bool nesterov = momentum > 0 && coin();
       return make<optim::SGD>(optim::SGDOptions{.lr = 0.1,
                                                 .momentum = momentum,
                                                 .dampening = nesterov ? 0 : either(0.25),
                                                 .weight_decay = either(0.1),
                                                 .nesterov = nesterov,
                                                 .maximize = coin()});
     }},
    {"Adam",
     [] {
       return make<optim::Adam>(optim::AdamOptions{
           .lr = 0.01, .eps = 1e-4, .weight_decay = either(0.1), .amsgrad = coin(), .maximize = coin()});
     }},
    {"AdamW",
     [] {
       return make<optim::AdamW>(optim::AdamWOptions{
           .lr = 0.01, .eps = 1e-4, .weight_decay = either(0.1), .amsgrad = coin(), .maximize = coin()});
     }},
    {"RMSprop",
     [] {
       return make<optim::RMSprop>(optim::RMSpropOptions{
           .eps = 1e-2, .weight_decay = either(0.1), .momentum = either(0.9), .centered = coin(), .maximize = coin()});
     }},
    {"Adagrad",
     [] {
       return make<optim::Adagrad>(optim::AdagradOptions{.lr_decay = either(0.1),
                                                         .weight_decay = either(0.1),
                                                         .initial_accumulator_value = either(0.5),
                                                         .eps = 1e-4,
                                                         .maximize = coin()});
     }},
    {"Adamax",
     [] {
       return make<optim::Adamax>(optim::AdamaxOptions{.eps = 1e-4, .weight_decay = either(0.1), .maximize = coin()});
     }},
    {"Lion", [] { return make<optim::Lion>(optim::LionOptions{.weight_decay = either(0.1), .maximize = coin()}); }},
};

/// The parameters after a step with each list of gradients.
std::vector<Tensor> after(const Make& optimizer, const std::vector<Tensor>& start,
                          const std::vector<std::vector<Tensor>>& gradients, DType dtype) {
  std::vector<Tensor> params;
  for (const Tensor& x : start) params.push_back(raw::clone(raw::cast(x, dtype)).requires_grad_());
  leave_nan_behind(params, dtype, 4);  // what is kept of each, and more
  const auto steps = optimizer(params);
  for (const auto& all : gradients) {
    for (std::size_t i = 0; i < params.size(); ++i) params[i].set_grad(raw::cast(all[i], dtype));
    steps->step();
  }
  return params;
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_with_any_options_agree_with_themselves_in_float64) {
  for (const auto& [name, with_random_options] : kRows) {
    for (int round = 0; round < 12; ++round) {
      const Make optimizer = with_random_options();
      std::vector<Tensor> start;
      for (int64_t i = roll(1, 5); i > 0; --i) start.push_back(noise({roll(1, 50), roll(1, round % 4 ? 50 : 2000)}));
      std::vector<std::vector<Tensor>> gradients(4);
      for (auto& all : gradients) {
        for (const Tensor& x : start) all.push_back(noise(x.sizes()));
      }
      const std::vector<Tensor> exact = after(optimizer, start, gradients, kFloat64);
      for (const int threads : {1, 3}) {
        const ThreadLimit limit(threads);
        const std::vector<Tensor> got = after(optimizer, start, gradients, kFloat32);
        for (std::size_t i = 0; i < got.size(); ++i) {
          agree(got[i].detach(), exact[i].detach(), 1e-5, std::string(name) + ", parameter " + std::to_string(i));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
