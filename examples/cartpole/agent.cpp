#include "agent.h"

#include <tendril/autograd/grad_mode.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/envs/vector_cartpole.h>
#include <tendril/nn/distributions/categorical.h>
#include <tendril/rpc/call.h>
#include <tendril/tensor/creation.h>

#include <algorithm>
#include <numeric>

#include "../support/device.h"
#include "names.h"
#include "returns.h"

namespace cartpole {

using tendril::Tensor;
using tendril::distributions::Categorical;
namespace rpc = tendril::rpc;

Agent::Agent(const Options& options)
    : options_(options),
      device_(examples::device_of(options.device)),
      generator_(static_cast<std::uint64_t>(options.seed)),
      policy_(generator_),
      optimizer_(policy_.to(device_).parameters(), {.lr = 1e-2}) {
  const int observers = std::max(1, options.world_size - 1);
  for (int i = 0; i < observers; ++i) records_.emplace_back(generator_.bits());
  for (int rank = 1; rank < options.world_size; ++rank)
    observers_.push_back(rpc::remote<Observer>(observer_name(rank), rank, options.steps_per_call, options.seed));
}

Agent::Record& Agent::record_of(int observer) { return records_.at(static_cast<std::size_t>(observer - 1)); }

std::vector<std::int64_t> Agent::select_action(int observer, const Tensor& states) {
  Record& record = record_of(observer);
  const Categorical choice({.logits = policy_.forward(states.to(device_), record.generator)});
  const Tensor actions = choice.sample(record.generator);
  record.log_probs.push_back(choice.log_prob(actions));
  return actions.to_vector<std::int64_t>();
}

void Agent::report_reward(int observer, const std::vector<float>& rewards) {
  record_of(observer).rewards.push_back(rewards);
}

void Agent::run_episode() {
  std::vector<rpc::Future<EpisodeEnd>> ends;
  for (const auto& observer : observers_) ends.push_back(observer.rpc_async<&Observer::run_episode>(weak_self()));
  for (std::size_t i = 0; i < ends.size(); ++i) records_[i].end = ends[i].wait();
  calls_made_ += static_cast<std::int64_t>(ends.size());
}

void Agent::run_episode(Observer& observer) { records_.front().end = observer.run_episode_with(*this); }

double Agent::finish_episode() {
  double worst = 0;
  bool any_failed = false;
  std::vector<Tensor> log_probs;
  std::vector<float> returns;
  last_steps_ = 0;
  for (Record& record : records_) {
    const EpisodeEnd& end = record.end;
    const auto episode = discounted_returns(record.rewards, end.lengths, end.terminated, options_.gamma);
    returns.insert(returns.end(), episode.begin(), episode.end());
    std::ranges::move(record.log_probs, std::back_inserter(log_probs));
    any_failed |= std::ranges::find(end.terminated, 1) != end.terminated.end();

    double reward = 0;
    for (const auto& step : record.rewards) reward += std::accumulate(step.begin(), step.end(), 0.0);
    reward /= static_cast<double>(end.lengths.size());
    worst = &record == &records_.front() ? reward : std::min(worst, reward);
    last_steps_ += static_cast<std::int64_t>(episode.size());
    record.log_probs.clear();
    record.rewards.clear();
  }
  running_reward_ = 0.05 * worst + (1 - 0.05) * running_reward_;

  // Where nobody failed all returns are equal, and standardising them would blow up their rounding errors.
  if (any_failed) {
    standardize(returns);
    const auto count = static_cast<std::int64_t>(returns.size());
    const Tensor weights = -tendril::from_vector(returns, {count}).to(device_);
    optimizer_.zero_grad();
    // The loss is the sum of weight times log-probability over all steps. Each step is a graph of its own; going
    // through them one by one adds up the gradients in the same order whichever thread recorded them, and so to the
    // same bits.
    std::int64_t first = 0;
    for (const Tensor& step : log_probs) {
      step.backward(weights.narrow(0, first, step.numel()));
      first += step.numel();
    }
    optimizer_.step();
  }
  return worst;
}

LatencyHistogram Agent::call_latencies() const {
  LatencyHistogram all;
  for (const auto& observer : observers_) all.merge(observer.rpc_sync<&Observer::call_latencies>());
  return all;
}

std::int64_t Agent::best_action(const tendril::envs::CartPole::Observation& observation) {
  const tendril::NoGrad no_grad;
  policy_.eval();
  const Tensor scores = policy_.forward(tendril::envs::observation_tensor(observation).to(device_), generator_);
  policy_.train();
  return scores.argmax(-1).item<std::int64_t>();
}

}  // namespace cartpole
