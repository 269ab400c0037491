#pragma once

#include <boost/asio/ip/address.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/group/rendezvous_message.h"
#include "tendril/rpc/threads/timer.h"

namespace tendril::rpc::detail {

/// Keeps an agent's sessions in step with the members of its group: a session with every live member, and none with an
/// earlier incarnation. If a session ends while its peer is alive, because the two were cut off from each other, begins
/// another one. Runs on the leader's thread, except `meet`.
class MemberSessions : public std::enable_shared_from_this<MemberSessions> {
 public:
  using Applied = std::function<void(const MemberRecord&)>;

  /// `rank_0_address` is the address of rank 0's host as seen from here (dialled_endpoint). `applied` is called with
  /// each change once the sessions agree with it.
  MemberSessions(const std::shared_ptr<Agent::Impl>& agent, boost::asio::ip::address rank_0_address, Applied applied);

  /// Begins a session with every other live member. Throws UsageError if device maps do not fit.
  void meet(const std::vector<MemberRecord>& members);
  void add(const std::vector<MemberRecord>& changes);
  /// Begins another session with a rank whose session has ended, if the peer is still a member.
  void restore(WorkerId rank);

 private:
  void go_on();
  bool apply(Agent::Impl& agent, const MemberRecord& change);
  bool has_joined(Agent::Impl& agent, const MemberRecord& member);
  void has_gone(Agent::Impl& agent, const MemberRecord& member);
  void begin_session(Agent::Impl& agent, const MemberRecord& member);

  const std::weak_ptr<Agent::Impl> agent_;
  const boost::asio::ip::address rank_0_address_;
  const Applied applied_;
  std::vector<MemberRecord> members_;  // by rank, with all changes applied so far
  std::deque<MemberRecord> changes_;
  Timer timer_;
};

}  // namespace tendril::rpc::detail
