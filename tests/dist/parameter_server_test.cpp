// A parameter server that collects the gradients of several trainers, steps once, and then answers all of them.
#include <mutex>
#include <thread>
#include <vector>

#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tests/dist/group.h"

BOOST_AUTO_TEST_SUITE(parameter_server)

using namespace dist_test;

constexpr int kTrainers = 3, kSteps = 4;

/// Serves one weight. The gradient that completes a round triggers the step for all trainers.
class BatchServer {
 public:
  BatchServer() { weight_.requires_grad_(); }

  Tensor fetch() const {
    const std::lock_guard lock(mutex_);
    return weight_.detach().clone();
  }
  /// Returns the weight after the step of the round that this gradient belongs to.
  rpc::Future<Tensor> update(const Tensor& gradient) {
    std::vector<rpc::Promise<Tensor>> waiting;
    rpc::Promise<Tensor> mine;
    auto future = mine.future();
    Tensor after;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(mine));
      sum_ = sum_.defined() ? sum_ + gradient : gradient;
      if (waiting_.size() < kTrainers) return future;
      weight_.set_grad(sum_ / kTrainers);
      sgd_.step();
      sum_ = Tensor();
      waiting.swap(waiting_);
      after = weight_.detach().clone();
    }
    for (auto& one : waiting) one.set_value(after);
    return future;
  }

 private:
  mutable std::mutex mutex_;
  Tensor weight_ = constant({1, -2, 3});
  optim::SGD sgd_{{weight_}, {.lr = 0.1}};
  Tensor sum_;
  std::vector<rpc::Promise<Tensor>> waiting_;
};

/// d/dw of sum((w * x)^2).
Tensor gradient_of(const Tensor& weight, int trainer, int step) {
  const Tensor x = constant({1.0 + trainer, 0.5 * step, -0.25});
  return weight * x * x * 2;
}

BOOST_AUTO_TEST_CASE(complete_round_answers_all_trainers) {
  const Group group(kTrainers + 1, {.num_worker_threads = 1});  // an incomplete round must not block it
  const auto server = rpc::remote<BatchServer>(group[0], 0);
  std::vector<std::vector<Values>> seen(kTrainers);
  {
    std::vector<std::jthread> trainers;
    for (int trainer = 0; trainer < kTrainers; ++trainer) {
      trainers.emplace_back([&, trainer] {
        Tensor weight = server.rpc_sync<&BatchServer::fetch>();
        for (int step = 0; step < kSteps; ++step) {
          weight = server.rpc_sync<&BatchServer::update>(gradient_of(weight, trainer, step));
          seen[static_cast<std::size_t>(trainer)].push_back(values(weight));
        }
      });
    }
  }
  Tensor weight = constant({1, -2, 3});
  for (std::size_t step = 0; step < kSteps; ++step) {
    Tensor sum = constant({0, 0, 0});
    for (int trainer = 0; trainer < kTrainers; ++trainer)
      sum = sum + gradient_of(weight, trainer, static_cast<int>(step));
    weight = weight - sum / kTrainers * 0.1;
    for (const auto& of_trainer : seen) {
      BOOST_REQUIRE(of_trainer.size() == kSteps);
      BOOST_TEST((of_trainer[step] == seen[0][step]));  // bitwise equal
      for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(std::abs(of_trainer[step][i] - values(weight)[i]) < 1e-12);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
