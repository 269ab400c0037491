#pragma once

#include <tendril/envs/cartpole.h>
#include <tendril/rpc/rref.h>
#include <tendril/tensor/tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "latency.h"

namespace cartpole {

class Agent;

/// How the episodes of one observer's environments ended.
struct EpisodeEnd {
  std::vector<std::int32_t> lengths;     ///< steps, of each environment
  std::vector<std::uint8_t> terminated;  ///< 1: the pole fell; 0: the time limit ended the episode

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& lengths& terminated;
  }
};

/// Has one or more environments to itself. It sends their states to the agent, which chooses the actions, applies these
/// and reports the rewards.
///
/// An environment as cheap as CartPole is of course stepped faster without any RPC; the shape is that of programs whose
/// environments are worth a process.
class Observer {
 public:
  /// `id` is the observer's rank. With more than one environment their states travel together, one row each.
  Observer(int id, int environments, std::int64_t seed);

  /// One episode in each environment, with an agent elsewhere: two calls a step. Blocks until the last has ended.
  EpisodeEnd run_episode(const tendril::rpc::RRef<Agent>& agent);

  /// The same with an agent in this process.
  EpisodeEnd run_episode_with(Agent& agent);

  /// One record for each call made so far.
  LatencyHistogram call_latencies() const { return latencies_; }

 private:
  template <class SelectAction, class ReportReward>
  EpisodeEnd play(SelectAction select_action, ReportReward report_reward);

  tendril::Tensor observe(std::span<const int> running) const;

  int id_;
  std::vector<tendril::envs::CartPole> envs_;
  LatencyHistogram latencies_;
};

}  // namespace cartpole
