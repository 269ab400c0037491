#include "observer.h"

#include <tendril/tensor/creation.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "agent.h"

namespace cartpole {
namespace {

// Apart for any two observers and for any two seeds: the environments of one observer count on from its own.
constexpr int kEnvironmentBits = 10;
constexpr int kObserverBits = 10;

}  // namespace

Observer::Observer(int id, int environments, std::int64_t seed)
    : id_(id), envs_(static_cast<std::size_t>(environments)) {
  std::int64_t stream = ((seed << kObserverBits) + id) << kEnvironmentBits;
  for (tendril::envs::CartPole& env : envs_) env.reset({.seed = stream++});
}

tendril::Tensor Observer::observe(std::span<const int> running) const {
  tendril::Tensor states = tendril::empty({static_cast<std::int64_t>(running.size()), 4});
  float* row = states.data<float>();
  for (const int env : running)
    row = std::ranges::copy(tendril::envs::cartpole_observation(envs_[static_cast<std::size_t>(env)].state()), row).out;
  return states;
}

template <class SelectAction, class ReportReward>
EpisodeEnd Observer::play(SelectAction select_action, ReportReward report_reward) {
  EpisodeEnd end;
  end.lengths.resize(envs_.size());
  end.terminated.resize(envs_.size());
  std::vector<int> running(envs_.size());
  std::iota(running.begin(), running.end(), 0);
  std::vector<float> rewards;
  for (tendril::envs::CartPole& env : envs_) env.reset();

  // The rows of a call are the environments that still run, in their order.
  while (!running.empty()) {
    const std::vector<std::int64_t> actions = select_action(observe(running));
    rewards.clear();
    std::size_t still = 0;
    for (std::size_t row = 0; row < running.size(); ++row) {
      const auto env = static_cast<std::size_t>(running[row]);
      const auto result = envs_[env].step(actions.at(row));
      rewards.push_back(static_cast<float>(result.reward));
      ++end.lengths[env];
      end.terminated[env] = result.terminated;
      if (!result.done()) running[still++] = running[row];
    }
    running.resize(still);
    report_reward(rewards);
  }
  return end;
}

EpisodeEnd Observer::run_episode(const tendril::rpc::RRef<Agent>& agent) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [this](auto call) {
    const Clock::time_point begin = Clock::now();
    const auto record = [&] {
      latencies_.record(static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count()));
    };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      record();
    } else {
      auto result = call();
      record();
      return result;
    }
  };
  return play(
      [&](const tendril::Tensor& states) {
        return timed([&] { return agent.rpc_sync<&Agent::select_action>(id_, states); });
      },
      [&](const std::vector<float>& rewards) { timed([&] { agent.rpc_sync<&Agent::report_reward>(id_, rewards); }); });
}

EpisodeEnd Observer::run_episode_with(Agent& agent) {
  return play([&](const tendril::Tensor& states) { return agent.select_action(id_, states); },
              [&](const std::vector<float>& rewards) { agent.report_reward(id_, rewards); });
}

}  // namespace cartpole
