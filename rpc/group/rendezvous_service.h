#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/group/membership.h"
#include "tendril/rpc/group/rendezvous.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/threads/timer.h"

namespace tendril::rpc::detail {

/// Serves the rendezvous (rendezvous.h) for rank 0's agent, on the leader's thread and over the agent's sessions. While
/// it waits for workers, it logs which ones are missing after 5 s, 10 s, 20 s, ...
class RendezvousService final : public GroupEvents, public std::enable_shared_from_this<RendezvousService> {
 public:
  explicit RendezvousService(const std::shared_ptr<Agent::Impl>& agent);
  void start();  ///< requires that a shared_ptr owns this object

  const std::shared_ptr<Membership>& membership() const noexcept { return membership_; }  ///< rank 0's
  /// Waits until every live worker knows of the group's failure, if the group has failed, for at most 2 s. May be
  /// called from any thread except the leader's.
  void wait_until_told();
  /// Waits until every other worker has left, until the deadline and for at most 2 s. Before that, a worker may not
  /// have received the message that all may leave. May be called from any thread except the leader's.
  void wait_until_left(Clock::time_point deadline);

  // GroupEvents
  std::optional<Refusal> asked(const Hello& theirs) override;
  void refused(const std::string& who) override;
  void connected(const WorkerInfo& peer, uint64_t incarnation) override;
  void received(const WorkerInfo& from, uint64_t incarnation, Bytes payload) override;
  void lost(const Loss& loss) override;
  bool restores(const WorkerInfo&) const override { return false; }  // a worker that rank 0 loses is no longer a member
  bool awaits(const WorkerInfo& peer) const override { return server_.awaits(peer.id); }

 private:
  void wait_until(bool (RendezvousServer::*holds)() const noexcept, Clock::time_point deadline);
  void received_locally(const RendezvousMessage& message);
  void act();
  void note_missing(std::chrono::seconds waited);
  void note_partition(WorkerId by, WorkerId peer, const std::string& why);
  void log_partitions();

  const std::weak_ptr<Agent::Impl> agent_;
  const Ref<Loop> loop_;
  // The remaining members belong to the leader.
  Timer deadline_, note_;
  const uint64_t incarnation_;  // rank 0's
  RendezvousServer server_;
  std::shared_ptr<Membership> membership_;
  struct PartitionReport {
    std::string why;
    uint64_t epoch = 0, peer_epoch = 0;  // of the two workers' last changes
    Clock::time_point due;               // when it is logged
  };
  std::size_t more_partitions_ = 0;                                      // reports beyond the limit
  std::map<std::pair<WorkerId, WorkerId>, PartitionReport> partitions_;  // by (worker, the peer that it has lost)
  Timer partition_timer_;
};

}  // namespace tendril::rpc::detail
