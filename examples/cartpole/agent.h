#pragma once

#include <tendril/envs/cartpole.h>
#include <tendril/nn/optim/adam.h>
#include <tendril/rpc/rref.h>
#include <tendril/rpc/weak_self.h>
#include <tendril/tensor/random.h>
#include <tendril/tensor/tensor.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "observer.h"
#include "options.h"
#include "policy.h"

namespace cartpole {

/// Holds the policy. Observers ask it for actions and tell it their rewards; after each round of episodes it learns by
/// REINFORCE (Williams, 1992).
class Agent : public tendril::rpc::WeakSelf<Agent> {
 public:
  /// Constructs an observer on each of the other workers of the group, if there are any.
  explicit Agent(const Options& options);

  /// Actions for an observer's states (n, 4), one a row. Observers may call at the same time: each has its own record
  /// and its own random stream, and the policy is only read.
  std::vector<std::int64_t> select_action(int observer, const tendril::Tensor& states);

  /// One reward for each row of that observer's last select_action.
  void report_reward(int observer, const std::vector<float>& rewards);

  /// All observers run their episodes at the same time, calling this agent, which an RRef must own. Blocks until the
  /// last is done.
  void run_episode();
  /// The same with one observer in this process.
  void run_episode(Observer& observer);

  /// Learns from the round and forgets it. Returns the reward of the worst observer, an observer's being the mean over
  /// its environments.
  double finish_episode();

  double running_reward() const { return running_reward_; }
  std::int64_t last_steps() const { return last_steps_; }  ///< environment steps of the round finished last
  std::int64_t calls_made() const { return calls_made_; }  ///< of this agent to its observers

  /// One record for each call that the observers made.
  LatencyHistogram call_latencies() const;

  /// The likeliest action, without dropout. Not while observers are being served.
  std::int64_t best_action(const tendril::envs::CartPole::Observation& observation);

 private:
  /// What one observer has done in this round.
  struct Record {
    explicit Record(std::uint64_t seed) : generator(seed) {}

    tendril::Generator generator;
    std::vector<tendril::Tensor> log_probs;   // [t]: of the actions chosen at step t, one a row
    std::vector<std::vector<float>> rewards;  // [t]: likewise
    EpisodeEnd end;
  };

  Record& record_of(int observer);

  Options options_;
  tendril::Device device_;  // the policy's
  tendril::Generator generator_;
  Policy policy_;
  tendril::optim::Adam optimizer_;
  std::deque<Record> records_;  // of observer 1, 2, ...
  std::vector<tendril::rpc::RRef<Observer>> observers_;
  double running_reward_ = 0;
  std::int64_t last_steps_ = 0;
  std::int64_t calls_made_ = 0;
};

}  // namespace cartpole
