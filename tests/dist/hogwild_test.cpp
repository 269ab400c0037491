// Trainers that update shared parameters on three workers without waiting for each other.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/three_layers.h"

BOOST_AUTO_TEST_SUITE(hogwild)

using namespace three_layers;
using dist::DistributedOptimizer;
using dist::OptimizerError;

BOOST_AUTO_TEST_CASE(interleaved_steps_require_hogwild) {
  const Group group(3);
  const Model model(group[0]);
  const auto interleave = [&](bool hogwild) {
    DistributedOptimizer<optim::SGD> first(group[0], model.params, {.lr = 0.1}, {.hogwild = hogwild}),
        second(group[0], model.params, {.lr = 0.1}, {.hogwild = hogwild});
    const Context context(group[0]);
    const Tensor loss = model.loss(input(1));
    std::thread([&] {
      const Context other(group[0]);
      backward(other, {model.loss(input(2))});
      second.step(other);
    }).join();
    backward(context, {loss});
    const Values before = model.values(0);
    first.step(context);
    BOOST_TEST((model.values(0) != before));
    BOOST_TEST(!first.state(model.params[0]).momentum_buffer.defined());
  };
  BOOST_CHECK_EXCEPTION(interleave(false), std::exception, says("modified by an inplace operation"));
  if (default_device() == kCPU) {
    interleave(true);
  } else {
    BOOST_CHECK_EXCEPTION(interleave(true), OptimizerError, says("hogwild: a parameter is on", "expected the CPU"));
  }
}

BOOST_AUTO_TEST_CASE(hogwild_marks_parameters_as_unversioned) {
  if (default_device() != kCPU) return;
  const Tensor param = ones({3});
  BOOST_TEST(!param.storage()->may_change_unseen());
  const Tensor stepped = dist::detail::unversioned(param);
  BOOST_TEST(param.storage()->may_change_unseen());
  BOOST_TEST(stepped.raw_data() == param.raw_data());
}

namespace dist_hogwild {

/// Subtracts lr times the gradient. Lets other threads run between reading and writing a parameter.
class SlowSGD final : public optim::OptimizerOf<optim::SGDOptions, optim::SGDState> {
 public:
  explicit SlowSGD(const std::vector<Tensor>& params, const optim::SGDOptions& options = {})
      : OptimizerOf("SlowSGD", {Group{params, options}}) {}

 protected:
  void update(std::span<const Ready> ready) override {
    for (const Ready& each : ready) {
      const Tensor next = each.param.detach() - each.grad * lr();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      Tensor(each.param).detach().copy_(next);
    }
  }
};

}  // namespace dist_hogwild
using dist_hogwild::SlowSGD;

BOOST_AUTO_TEST_CASE(parameter_cast_in_place_is_rejected) {
  const Tensor param = raw::ones({4}, kBFloat16);
  const Tensor stepped = raw::from_blob(param.raw_data(), {2}, {1}, kFloat32, [param](void*) {});
  BOOST_CHECK_EXCEPTION(dist::detail::check_not_moved({param}, {stepped}), Error, says("parameter 0", "moved or cast"));
}

// The gradient is 1 for every parameter, so the result does not depend on the order of the steps: each must subtract
// the learning rate from every element. The learning rate is a power of two, so that the differences are exact.
BOOST_AUTO_TEST_CASE(every_hogwild_step_is_applied) {
  if (default_device() != kCPU) return;  // rejected, as the first test checks
  constexpr int kTrainers = 4, kSteps = 25, kSize = 100;
  const Group group(2, {.num_worker_threads = kTrainers});
  const RRef<Layer> layer = rpc::remote<Layer>(group[0], 1, 1, std::vector<double>(kSize, 0.0));
  const RRef<Tensor> param = layer.rpc_sync<&Layer::parameter>();
  std::mutex mutex;
  std::string errors;
  std::vector<std::jthread> trainers;
  for (int t = 0; t < kTrainers; ++t) {
    trainers.emplace_back([&] {
      try {
        DistributedOptimizer<SlowSGD> opt(group[0], {param}, {.lr = 0.5}, {.hogwild = true});
        for (int i = 0; i < kSteps; ++i) {
          const Context context(group[0]);
          backward(context, {layer.rpc_sync<&Layer::sum>()});
          opt.step(context);
        }
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        errors += error.what();
      }
    });
  }
  trainers.clear();
  BOOST_TEST(errors == "");
  const Values values = layer.rpc_sync<&Layer::values>();
  BOOST_TEST(std::ranges::count(values, -0.5 * kTrainers * kSteps) == kSize);
}

BOOST_AUTO_TEST_CASE(hogwild_trainers_share_a_module) {
  if (default_device() != kCPU) return;  // rejected, as the first test checks
  const Group group(3);
  const Model model(group[0]);
  const double before = model.loss(input(2)).item<double>();
  constexpr int kTrainers = 3, kSteps = 25;
  std::atomic<int> steps{0};
  std::mutex mutex;
  std::string errors;
  std::vector<std::jthread> trainers;
  for (int t = 0; t < kTrainers; ++t) {
    trainers.emplace_back([&] {
      try {
        DistributedOptimizer<optim::SGD> opt(group[0], model.params, {.lr = 0.02}, {.hogwild = true});
        for (int i = 0; i < kSteps; ++i) {
          const Context context(group[0]);
          backward(context, {model.loss(input(2))});
          opt.step(context);
          ++steps;
        }
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        errors += error.what();
      }
    });
  }
  trainers.clear();
  BOOST_TEST(errors == "");
  BOOST_TEST(steps == kTrainers * kSteps);
  BOOST_TEST(model.loss(input(2)).item<double>() < before);
}

BOOST_AUTO_TEST_SUITE_END()
