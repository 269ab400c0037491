// CartPole-v1, solved by an agent (rank 0) that holds the policy and observers (ranks 1, 2, ...) that hold the
// environments. Follows PyTorch's tutorial "Getting started with distributed RPC framework". Read this file from top to
// bottom. The neighbouring files parse flags, print reports and draw.
#include <tendril/tendril.h>

#include "returns.h"
#include "support.h"

namespace cartpole {

using namespace tendril;

/// Maps a state (4 numbers) to one score per action (2 numbers).
struct Policy : nn::Module {
  nn::Linear affine1{4, 128}, affine2{128, 2};

  Policy() {
    register_module("affine1", affine1);
    register_module("affine2", affine2);
  }
  /// Maps states (n, 4) to unnormalised log-probabilities (n, 2). Dropout draws from the caller's generator, so that
  /// the agent can serve several observers concurrently, each with its own random stream.
  Tensor forward(const Tensor& states, Generator& generator) const {
    const Tensor hidden = affine1(states.to(default_device()));
    return affine2((is_training() ? dropout(hidden, 0.6, generator) : hidden).relu());
  }
};

class Agent;

/// Owns one or more environments. Sends their states to the agent, applies the actions that the agent chooses, and
/// reports the rewards. (CartPole is so cheap that it would run faster without RPC; the structure is for environments
/// that need a process each.)
struct Observer {
  int id;
  std::vector<envs::CartPole> carts;

  Observer(int number, int environments, std::int64_t seed)
      : id(number), carts(static_cast<std::size_t>(environments)) {
    std::int64_t stream = ((seed << 10) + id) << 10;  // distinct for any two observers and seeds
    for (envs::CartPole& env : carts) env.reset({.seed = stream++});
  }
  /// Runs one episode in each environment, with two calls to the agent per step. Returns when the last episode has
  /// ended.
  void run_episode(const rpc::RRef<Agent>& agent);
};

/// Holds the policy. Observers request actions and report rewards; after each round of episodes the agent learns by
/// REINFORCE (Williams, 1992). Observers may call concurrently: each has its own record and random stream, and calls
/// only read the policy.
class Agent : public rpc::WeakSelf<Agent> {
 public:
  explicit Agent(const Options& options) : gamma_(options.gamma) {
    for (int id = 1; id <= std::max(1, options.world_size - 1); ++id) {
      const int rank = std::min(id, options.world_size - 1);  // one worker each; in a group of one, this process
      observers_.push_back(rpc::remote<Observer>(rank, id, options.steps_per_call, options.seed));
      records_.emplace_back().generator.manual_seed(default_generator().bits());
    }
  }

  /// Returns the actions for an observer's states (n, 4), one per row.
  std::vector<std::int64_t> select_action(int observer, const Tensor& states) {
    Record& record = record_of(observer);
    const distributions::Categorical choice({.logits = policy_.forward(states, record.generator)});
    const Tensor actions = choice.sample(record.generator);
    record.log_probs.push_back(choice.log_prob(actions));
    return actions.to_vector<std::int64_t>();
  }
  /// Records the rewards and outcomes of those actions, one per row.
  void report_reward(int observer, const Step& step) { record_of(observer).steps.push_back(step); }

  /// Runs the episodes of all observers concurrently; they call this agent, which must be owned by an RRef.
  void run_episode() {
    std::vector<rpc::Future<void>> ends;
    for (const auto& observer : observers_) ends.push_back(observer.rpc_async<&Observer::run_episode>(weak_self()));
    rpc::wait_all(std::move(ends));
  }

  /// Learns from the round and clears its records. Returns the reward of the worst observer (an observer's reward is
  /// the mean over its environments) and the number of environment steps.
  std::pair<double, std::size_t> finish_episode() {
    double worst = std::numeric_limits<double>::infinity();
    bool any_fell = false;
    std::vector<double> returns;
    std::vector<Tensor> log_probs;
    for (Record& record : records_) {
      double reward = 0;
      for (const Step& step : record.steps)
        for (const auto& [earned, then] : step) reward += earned, any_fell |= then == Then::fell;
      worst = std::min(worst, reward / static_cast<double>(record.steps.front().size()));
      std::ranges::copy(discounted_returns(record.steps, gamma_), std::back_inserter(returns));
      std::ranges::move(record.log_probs, std::back_inserter(log_probs));
      record.log_probs.clear(), record.steps.clear();
    }
    // If no pole fell, all returns are equal, and standardising them would amplify rounding errors.
    if (any_fell) learn(log_probs, tensor(returns, {.dtype = kFloat64}));
    return {worst, returns.size()};
  }
  Policy& policy() { return policy_; }

 private:
  /// One observer's actions and outcomes in this round.
  struct Record {
    Generator generator{0};
    std::vector<Tensor> log_probs;  // [t]: log-probabilities of the actions at step t, one per row
    std::vector<Step> steps;
  };
  Record& record_of(int observer) { return records_.at(static_cast<std::size_t>(observer - 1)); }

  /// Takes a step of Adam on the sum over all steps of minus log-probability times standardised return.
  void learn(const std::vector<Tensor>& log_probs, const Tensor& returns) {
    const Tensor weights = ((returns.mean() - returns) / (returns.std() + 0x1p-23)).to(kFloat32);  // the tutorial's eps
    optimizer_.zero_grad();
    // Each step has its own graph. Running backward step by step adds the gradients in the same order, and so to the
    // same bits, regardless of the threads that recorded them.
    for (std::int64_t first = 0; const Tensor& step : log_probs) {
      step.backward(weights.narrow(0, first, step.numel()));
      first += step.numel();
    }
    optimizer_.step();
  }

  double gamma_;
  Policy policy_;
  optim::Adam optimizer_{policy_.parameters(), {.lr = 1e-2}};
  std::deque<Record> records_;  // [i]: of observer i + 1
  std::vector<rpc::RRef<Observer>> observers_;
};

void Observer::run_episode(const rpc::RRef<Agent>& agent) {
  std::vector<envs::CartPole*> running;
  for (envs::CartPole& env : carts) env.reset(), running.push_back(&env);
  while (!running.empty()) {  // one row per running environment
    std::vector<float> states;
    for (const auto* env : running)
      std::ranges::copy(envs::cartpole_observation(env->state()), std::back_inserter(states));
    const auto actions = examples::rpc_sync<&Agent::select_action>(agent, id, envs::observation_tensor(states));
    Step step;
    for (std::size_t row = 0; row < running.size(); ++row) {
      const auto [state, reward, fell, too_long] = running[row]->step(actions.at(row));
      step.emplace_back(reward, fell ? Then::fell : too_long ? Then::time_is_up : Then::next);
      if (fell || too_long) running[row] = nullptr;
    }
    examples::rpc_sync<&Agent::report_reward>(agent, id, step);
    std::erase(running, nullptr);
  }
}

/// Runs in each process of the group. Observers serve the agent inside shutdown() until it has finished.
void run_worker(int rank, Options options) {
  options.world_size = rpc::launch_info().world_size;
  rpc::init_rpc(rank == 0 ? "agent" : "observer" + std::to_string(rank));
  if (rank == 0) {
    examples::set_device_and_seed(options);
    const auto agent = rpc::make_rref<Agent>(options);
    Report report(options);
    while (!report.done()) {
      agent.local_value().run_episode();
      report.episode(agent.local_value().finish_episode());
    }
    report.finish();
    if (options.render) show_episode(options.seed, agent.local_value().policy());
  }
  rpc::shutdown();
}

}  // namespace cartpole

int main(int argc, char** argv) {
  return examples::run_main(argc, argv, cartpole::parse_options, [&](const cartpole::Options& options) {
    tendril::rpc::launch<&cartpole::run_worker>(argc, argv, options.launch, options);
  });
}
