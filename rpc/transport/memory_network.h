#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/transport/link.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"

namespace tendril::rpc {

namespace detail {
class MemoryLink;
}

/// A message on its way between two agents of one process.
struct PassingMessage {
  WorkerId from = -1, to = -1;
  const Message& message;
  uint64_t number = 0;       ///< 1, 2, 3, ... over the whole network, since the rule was set
  uint64_t link_number = 0;  ///< 1, 2, 3, ... from `from` to `to`, since the rule was set
};

/// What the network does with it.
struct MessageFate {
  int copies = 1;                      ///< 0: it is lost
  std::chrono::microseconds delay{0};  ///< meanwhile later messages overtake it
  bool cut = false;                    ///< it is lost, and the connection with it
};

/// Decides about every message; called by the sending threads, one at a time.
using NetworkRule = std::function<MessageFate(const PassingMessage&)>;

/// Joins agents of one process, for tests. Messages travel as frames (wire.h), so that agents share nothing, and are
/// delivered by the receiving agent's loop; without a rule all arrive, in order. What happens to the n-th message of a
/// link depends on the rule alone; how messages of different links interleave is the scheduler's. Thread-safe.
class MemoryNetwork : public std::enable_shared_from_this<MemoryNetwork> {
 public:
  static std::shared_ptr<MemoryNetwork> make() { return std::shared_ptr<MemoryNetwork>(new MemoryNetwork); }

  /// Makes two agents peers of each other.
  void connect(Agent& a, Agent& b);
  /// As every pair's `connect`.
  void connect_all(const std::vector<Agent*>& agents);
  /// The connection breaks: what is on its way is lost, both sides are told. Nothing happens if there is none.
  void cut(WorkerId a, WorkerId b);

  /// An empty rule: everything arrives. Numbers start again at 1.
  void set_rule(NetworkRule rule);
  uint64_t messages() const;  ///< sent since the rule was set

 private:
  friend class detail::MemoryLink;

  MemoryNetwork() = default;
  MessageFate fate(WorkerId from, WorkerId to, const Message& message);

  mutable detail::Mutex mutex_;
  NetworkRule rule_;
  uint64_t messages_ = 0;
  std::map<std::pair<WorkerId, WorkerId>, uint64_t> link_messages_;
  std::map<std::pair<WorkerId, WorkerId>, std::weak_ptr<detail::MemoryLink>> links_;  // by whose end, and the peer
};

/// The n-th message of the network (or the n-th of one kind) meets this fate, all others arrive. For loops that raise n
/// until a run is over before its n-th message: every point of failure is then visited.
NetworkRule nth_message(uint64_t n, MessageFate fate, std::optional<MessageKind> kind = std::nullopt);

/// Probabilities, each from 0 to 1.
struct RandomFaults {
  double lose = 0, repeat = 0, delay = 0;
  std::chrono::microseconds max_delay{3000};
  std::vector<MessageKind> kinds = {};  ///< to which this happens; empty: to all
};
/// The fate of a link's n-th message is a function of the seed, the two workers and n.
NetworkRule random_faults(uint64_t seed, RandomFaults faults);

}  // namespace tendril::rpc
