// CartPole over RPC: an agent (rank 0) holds the policy, and observers (ranks 1, 2, ...) hold the environments. After
// PyTorch's tutorial "Getting started with distributed RPC framework". ../apps/cartpole has more flags and reports.
#include <tendril/tendril.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace tendril;

struct Options {
  double gamma = 0.99;
  std::int64_t seed = 543;
  int log_interval = 10;
  int episodes = 5000;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& gamma& seed& log_interval& episodes;
  }
};

struct Policy : nn::Module {
  nn::Linear affine1{4, 128};
  nn::Dropout dropout{0.6};
  nn::Linear affine2{128, 2};
  TENDRIL_MEMBERS(affine1, dropout, affine2)

  Tensor forward(const Tensor& state) const {
    const Tensor hidden = dropout(affine1(state)).relu();
    return affine2(hidden).softmax(-1);
  }
};

class Agent;

class Observer {
 public:
  explicit Observer(std::int64_t seed) { env_.reset({.seed = seed}); }

  void run_episode(const rpc::RRef<Agent>& agent);

 private:
  int id_ = rpc::get_worker_info().id;
  envs::CartPole env_;
};

class Agent {
 public:
  Agent(int world_size, const Options& options) : gamma_(options.gamma) {
    for (int rank = 1; rank < world_size; ++rank) {
      observers_.push_back(rpc::remote<Observer>(rank, 1000 * options.seed + rank));
      episodes_[rank] = {};
    }
  }

  // Observers call select_action and report_reward concurrently. Each has its own entry in episodes_.
  std::int64_t select_action(int observer, const Tensor& state) {
    const distributions::Categorical actions({.probs = policy_.forward(state)});
    const Tensor action = actions.sample();
    episodes_.at(observer).log_probs.push_back(actions.log_prob(action));
    return action.item<std::int64_t>();
  }

  void report_reward(int observer, double reward, bool has_fallen) {
    Episode& episode = episodes_.at(observer);
    episode.rewards.push_back(reward);
    episode.has_fallen = has_fallen;
  }

  // All observers run an episode at the same time. `self` refers to this agent.
  void run_episode(const rpc::RRef<Agent>& self) {
    std::vector<rpc::Future<void>> futures;
    for (const auto& observer : observers_) futures.push_back(observer.rpc_async<&Observer::run_episode>(self));
    rpc::wait_all(std::move(futures));
  }

  // One step of REINFORCE (Williams, 1992). Returns the smallest total reward of any observer.
  double finish_episode() {
    double min_reward = std::numeric_limits<double>::infinity();
    std::vector<double> returns;
    std::vector<Tensor> log_probs;
    for (auto& [observer, episode] : episodes_) {
      min_reward = std::min(min_reward, std::reduce(episode.rewards.begin(), episode.rewards.end()));
      // If the time limit ended the episode, assume that the last reward would repeat forever.
      double later = episode.has_fallen ? 0 : episode.rewards.back() / (1 - gamma_);
      for (std::size_t t = episode.rewards.size(); t-- > 0;) {
        later = episode.rewards[t] + gamma_ * later;
        returns.push_back(later);
        log_probs.push_back(episode.log_probs[t]);
      }
      episode = {};
    }
    const Tensor r = tensor(returns).to(kFloat32);
    if ((r.std() > 1e-5 * r.abs().max()).item<bool>()) {  // otherwise the returns differ only by rounding
      const Tensor loss = -(cat(log_probs) * (r - r.mean()) / r.std()).sum();
      optimizer_.zero_grad();
      loss.backward();
      optimizer_.step();
    }
    return min_reward;
  }

 private:
  struct Episode {
    std::vector<Tensor> log_probs;
    std::vector<double> rewards;
    bool has_fallen = false;
  };
  double gamma_;
  Policy policy_;
  optim::Adam optimizer_{policy_.parameters(), {.lr = 1e-2}};
  std::vector<rpc::RRef<Observer>> observers_;
  std::map<int, Episode> episodes_;  // by observer
};

void Observer::run_episode(const rpc::RRef<Agent>& agent) {
  Tensor state = envs::observation_tensor(env_.reset());
  for (bool done = false; !done;) {
    const std::int64_t action = agent.rpc_sync<&Agent::select_action>(id_, state);
    const auto step = env_.step(action);
    const double reward = step.reward;  // 1 per step; if you change it, adapt the threshold in run_worker
    agent.rpc_sync<&Agent::report_reward>(id_, reward, step.terminated);
    state = envs::observation_tensor(step.observation);
    done = step.done();
  }
}

void run_worker(int rank, const Options& options) {
  if (rpc::launch_info().world_size < 2) throw std::invalid_argument("expected an agent and at least one observer");
  rpc::init_rpc(rank == 0 ? "agent" : "observer" + std::to_string(rank));
  if (rank == 0) {
    manual_seed(static_cast<std::uint64_t>(options.seed));
    const auto agent = rpc::make_rref<Agent>(rpc::launch_info().world_size, options);
    const double threshold = envs::CartPole().reward_threshold();
    double running_reward = 0;
    for (int episode = 1; running_reward <= threshold && episode <= options.episodes; ++episode) {
      agent.local_value().run_episode(agent);
      const double last_reward = agent.local_value().finish_episode();
      running_reward = 0.05 * last_reward + 0.95 * running_reward;
      if (episode % options.log_interval == 0) {
        std::printf("Episode %d\tLast reward: %.2f\tAverage reward: %.2f\n", episode, last_reward, running_reward);
        std::fflush(stdout);
      }
    }
    const bool solved = running_reward > threshold;
    std::printf("%s Running reward is now %.2f\n", solved ? "Solved!" : "Not solved.", running_reward);
  }
  rpc::shutdown();  // observers serve the agent until it is done
}

int main(int argc, char** argv) {
  Options options;
  int world_size = -1;
  CLI::App app("Solves CartPole-v1 with one agent and several observers, each in its own process");
  app.add_option("--world-size", world_size, "number of processes (default: 3)")->check(CLI::Range(2, 1000));
  app.option_defaults()->always_capture_default();
  app.add_option("--gamma", options.gamma, "discount factor")->check(CLI::Range(0.0, 0.9999));
  app.add_option("--seed", options.seed, "random seed; timing also matters")->check(CLI::Range(0, 1'000'000));
  app.add_option("--log-interval", options.log_interval, "episodes between status lines")->check(CLI::PositiveNumber);
  app.add_option("--episodes", options.episodes, "maximum number of episodes")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  rpc::launch<&run_worker>(argc, argv, {.world_size = world_size, .default_world_size = 3}, options);
}
