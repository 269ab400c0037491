// Pipelines whose stages are sometimes slow: losses and gradients must equal those of local autograd, also after a
// batch that failed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/dist/pipeline/pipeline.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"

namespace simulated::pipelines {

using namespace std::chrono_literals;
using namespace tendril;
namespace pp = dist::pipeline;

constexpr int kWorkers = 4;
constexpr int64_t kWidths[] = {3, 5, 4, 6, 2};

Tensor random_values(Random& random, int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * columns; ++i) values.push_back(random.unit() * 2 - 1);
  return tensor(values, {.dtype = kFloat64}).reshape({rows, columns});
}

/// Stage `number` of the model that a seed defines. Its forward sometimes sleeps for up to `longest_nap` ms.
struct Layer : nn::Module {
  Layer(int64_t number, uint64_t seed, int64_t longest_nap)
      : random(seed + static_cast<uint64_t>(number) * 131), naps(std::clamp<int64_t>(longest_nap, 0, 5000)) {
    const int64_t place = std::clamp<int64_t>(number, 0, kWorkers - 1);
    weight = random_values(random, kWidths[place], kWidths[place + 1]).requires_grad_();
    bias = random_values(random, 1, kWidths[place + 1]).requires_grad_();
    register_parameter("weight", weight);
    register_parameter("bias", bias);
  }
  Tensor forward(const Tensor& x) {
    if (naps > 0 && random.chance(0.15))
      rpc::sleep_for(std::chrono::milliseconds(random.below(static_cast<uint64_t>(naps))));
    return (x.matmul(weight) + bias).tanh();
  }
  Random random;
  const int64_t naps;
  Tensor weight, bias;
};

Tensor mean_square(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }

/// The plan of the seed, the same for all workers.
struct Plan {
  WorkerId driver = 0;
  std::vector<WorkerId> workers;  // by stage
  bool one_forward_one_backward = false;
  int micro_batches = 2;
  pp::PipelineOptions options;
  int64_t longest_nap = 0;  // ms; 0: no stage sleeps
  uint64_t model = 0;
  bool must_succeed = false;
};
Plan plan;

Plan plan_of(const Faults& faults) {
  Random random = random_of_seed();
  Plan made;
  made.driver = static_cast<WorkerId>(random.below(kWorkers));
  const auto stages = random.between(2, 4), first = random.below(kWorkers), step = random.between(0, 1) * 2 + 1;
  for (uint64_t s = 0; s < stages; ++s) made.workers.push_back(static_cast<WorkerId>((first + s * step) % kWorkers));
  made.one_forward_one_backward = random.chance(0.5);
  made.micro_batches = static_cast<int>(random.between(2, 8));
  made.options.checkpoint = random.chance(0.2);
  const auto timeout = std::chrono::milliseconds(random.between(100, 1000));
  const bool is_short = random.chance(0.7), is_unlimited = random.chance(0.5);
  // A corrupted number of a micro-batch makes a stage wait until the timeout.
  if (is_short || corrupts(faults)) {
    made.options.timeout = timeout;
  } else if (is_unlimited) {
    made.options.timeout = 0ms;
  }
  if (random.chance(0.6)) made.longest_nap = static_cast<int64_t>(random.between(50, 1500));
  made.model = random.bits() >> 1;
  const bool is_delayed = faults.long_delay > 0 || faults.reset > 0;
  made.must_succeed = harmless(faults) && made.longest_nap == 0 && !(is_short && is_delayed);
  return made;
}

std::vector<rpc::RRef<pp::Stage>> make_stages() {
  std::vector<rpc::RRef<pp::Stage>> stages;
  for (std::size_t s = 0; s < plan.workers.size(); ++s) {
    const auto number = static_cast<int64_t>(s);
    const WorkerId to = plan.workers[s];
    stages.push_back(s + 1 < plan.workers.size()
                         ? pp::make_stage<Layer>(to, number, plan.model, plan.longest_nap)
                         : pp::make_loss_stage<Layer, &mean_square>(to, number, plan.model, int64_t{0}));
  }
  return stages;
}

/// The gradients of a stage's parameters, with zeros for those without a gradient. Called on the stage's worker.
std::vector<Tensor> gradients_of(const rpc::RRef<pp::Stage>& stage, int64_t context) {
  const auto found = dist::autograd::get_gradients(static_cast<dist::autograd::ContextId>(context));
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : stage.local_value().module()->parameters()) {
    const Tensor gradient = found.find(parameter);
    gradients.push_back(gradient.defined() ? gradient : zeros(parameter.sizes(), kFloat64));
  }
  return gradients;
}

void compare(const Tensor& got, const Tensor& expected, const std::string& what) {
  const double difference = (got - expected).abs().max().item<double>(), size = expected.abs().max().item<double>();
  if (!(difference <= 1e-12 * (1 + size))) value_problem(what + " is wrong by " + std::to_string(difference));
}

/// The loss and the gradients that local autograd computes.
struct Expected {
  double loss = 0;
  std::vector<std::vector<Tensor>> gradients;  // by stage
};
Expected compute_here(const Tensor& inputs, const Tensor& targets) {
  std::vector<std::unique_ptr<Layer>> layers;
  Tensor y = inputs;
  for (std::size_t s = 0; s < plan.workers.size(); ++s) {
    layers.push_back(std::make_unique<Layer>(static_cast<int64_t>(s), plan.model, 0));
    y = layers.back()->forward(y);
  }
  const Tensor loss = mse_loss(y, targets);
  loss.backward();
  Expected expected{.loss = loss.item<double>()};
  for (const auto& layer : layers) {
    expected.gradients.emplace_back();
    for (const Tensor& parameter : layer->parameters()) expected.gradients.back().push_back(parameter.grad());
  }
  return expected;
}

/// Trains one batch of random inputs and compares the loss and gradients with the expected ones.
void batch(pp::Pipeline& pipeline, const std::vector<rpc::RRef<pp::Stage>>& stages, Random& random) {
  const auto rows = plan.micro_batches + static_cast<int64_t>(random.below(5));
  const Tensor inputs = random_values(random, rows, kWidths[0]);
  const Tensor targets = random_values(random, rows, kWidths[plan.workers.size()]);
  const Expected expected = compute_here(inputs, targets);
  const dist::autograd::Context context;
  const double loss = pipeline.train(context, inputs, targets);
  if (!(std::abs(loss - expected.loss) <= 1e-12 * (1 + std::abs(expected.loss))))
    value_problem("the loss is " + std::to_string(loss) + ", expected " + std::to_string(expected.loss));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::vector<Tensor> got = rpc::rpc_sync<&gradients_of>(stages[s].owner(), rpc::CallOptions{.timeout = 10s},
                                                                 stages[s], static_cast<int64_t>(context.id()));
    for (std::size_t i = 0; i < got.size() && i < expected.gradients[s].size(); ++i)
      compare(got[i], expected.gradients[s][i], "gradient " + std::to_string(i) + " of stage " + std::to_string(s));
  }
}

/// Trains batches on stages made for them. A batch that fails is followed by the next one.
void train(Random& random) {
  const std::vector<rpc::RRef<pp::Stage>> stages = make_stages();
  const auto workers = static_cast<int>(stages.size());
  pp::Pipeline pipeline(stages,
                        plan.one_forward_one_backward ? pp::one_forward_one_backward(workers, plan.micro_batches)
                                                      : pp::gpipe(workers, plan.micro_batches),
                        plan.options);
  for (int i = 0; i < 5; ++i) try {
      if (random.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(random.below(300)));
      batch(pipeline, stages, random);
    } catch (const Error& e) {  // a worker is lost, or a stage has slept for too long
      if (plan.must_succeed) problem("batch " + std::to_string(i) + ": " + e.what());
    }
}

void run(WorkerId rank) {
  Random random = random_of(rank);
  {
    const AtWork here;
    join(rank);
    for (int i = 0; i < 2 && rank == plan.driver; ++i) try {
        train(random);
      } catch (const rpc::RpcError& e) {  // a stage was not made
        if (plan.must_succeed) problem(std::string("the stages were not made: ") + e.what());
      }
  }
  wait_for_others();
  leave(rank, 30s);
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  check_leaving(report, faults);
}

const bool added = add({.name = "pipelines",
                        .world_size = kWorkers,
                        .begin = [](uint64_t seed) { plan = plan_of(faults_of(seed)); },
                        .run = run,
                        .check = check});

}  // namespace simulated::pipelines
