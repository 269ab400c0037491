// Steps of a distributed optimizer over parameters of several workers. After each step, the parameters must equal those
// of a local copy; a step that fails is applied at most once on each worker.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/dist/optimizer.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"

namespace simulated::optimizers {

using namespace std::chrono_literals;
using namespace tendril;

constexpr int kWorkers = 3;
constexpr int64_t kSize = 4;
constexpr double kRate = 0.1;

using Values = std::vector<Tensor>;  // by worker

Tensor random_values(Random& random) {
  std::vector<double> values;
  for (int64_t i = 0; i < kSize; ++i) values.push_back(random.unit() * 2 - 1);
  return tensor(values, {.dtype = kFloat64});
}

Tensor make_parameter(int64_t seed) {
  Random random(static_cast<uint64_t>(seed));
  return random_values(random).requires_grad_();
}

Tensor layer(const Tensor& x, const Tensor& parameter) { return (x * parameter).tanh() + x; }

// Called on the parameter's worker.
Tensor forward(const rpc::RRef<Tensor>& parameter, const Tensor& x) { return layer(x, parameter.local_value()); }
Tensor fetch(const rpc::RRef<Tensor>& parameter) { return parameter.local_value().detach().clone(); }

/// The parameters, and a local copy of them.
struct Model {
  std::vector<rpc::RRef<Tensor>> parameters;
  Values copies;
};

Model make_model(Random& random) {
  Model model;
  for (WorkerId worker = 0; worker < kWorkers; ++worker) {
    const auto seed = static_cast<int64_t>(random.bits() >> 1);
    model.parameters.push_back(rpc::remote<&make_parameter>(worker, rpc::CallOptions{.timeout = 10s}, seed));
    model.copies.push_back(make_parameter(seed).detach());
  }
  return model;
}

/// The copies after a step with this input, by local autograd.
Values stepped(const Values& copies, const Tensor& x) {
  Values parameters;
  Tensor y = x;
  for (const Tensor& copy : copies) {
    parameters.push_back(copy.clone().requires_grad_());
    y = layer(y, parameters.back());
  }
  y.sum().backward();
  Values after;
  for (std::size_t i = 0; i < copies.size(); ++i) after.push_back(copies[i] - parameters[i].grad() * kRate);
  return after;
}

bool is_close(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && (a - b).abs().max().item<double>() <= 1e-12 * (1 + b.abs().max().item<double>());
}

/// Fetches the parameters and makes the copies equal to them. Each must be the one before or the one after the step.
void settle(Model& model, const Values* after) {
  for (std::size_t i = 0; i < model.copies.size(); ++i) {
    const Tensor got =
        rpc::rpc_sync<&fetch>(model.parameters[i].owner(), rpc::CallOptions{.timeout = 10s}, model.parameters[i]);
    const bool has_stepped = after != nullptr && is_close(got, (*after)[i]);
    if (has_stepped) model.copies[i] = (*after)[i];
    if (!has_stepped && !is_close(got, model.copies[i]))
      value_problem("the parameter of rank " + std::to_string(i) +
                    (after == nullptr ? " changed without a step" : " was stepped more than once"));
  }
}

/// Runs forward, backward and a step. Throws any error of forward or backward.
void round(Model& model, dist::DistributedOptimizer<optim::SGD>& optimizer, Random& random) {
  const Tensor x = random_values(random);
  const dist::autograd::Context context;
  Tensor y = x;
  for (const auto& parameter : model.parameters)
    y = rpc::rpc_sync<&forward>(parameter.owner(), rpc::CallOptions{.timeout = 10s}, parameter, y);
  dist::autograd::backward(context, {y.sum()}, {.timeout = 20s});
  const Values after = stepped(model.copies, x);
  try {
    const bool is_short = random.chance(0.3) && !harmless(faults_now());
    optimizer.step(context, {.timeout = std::chrono::milliseconds(is_short ? random.between(1, 500) : 10'000)});
  } catch (const dist::OptimizerError& e) {
    if (harmless(faults_now())) problem(std::string("a step failed although no worker was lost: ") + e.what());
    rpc::sleep_for(12s);  // a step that is late may still be applied
    return settle(model, &after);
  }
  model.copies = after;
}

void train(Random& random) {
  Model model = make_model(random);
  dist::DistributedOptimizer<optim::SGD> optimizer(model.parameters, {.lr = kRate});
  for (int i = 0; i < 6; ++i) {
    if (random.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(random.below(300)));
    try {
      round(model, optimizer, random);
    } catch (const Error& e) {  // a worker is lost, or late
      if (harmless(faults_now())) problem("round " + std::to_string(i) + " failed: " + e.what());
    }
    settle(model, nullptr);
  }
}

void run(WorkerId rank) {
  Random random = random_of(rank);
  const auto driver = static_cast<WorkerId>(random_of_seed().below(kWorkers));
  {
    const AtWork here;
    join(rank);
    for (int i = 0; i < 2 && rank == driver; ++i) try {
        train(random);
      } catch (const Error& e) {  // a parameter is lost
        if (harmless(faults_now())) problem(std::string("training failed: ") + e.what());
      }
  }
  wait_for_others();
  leave(rank, 30s);
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  check_leaving(report, faults);
}

const bool added = add({.name = "optimizers", .world_size = kWorkers, .begin = {}, .run = run, .check = check});

}  // namespace simulated::optimizers
