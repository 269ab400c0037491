#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "tendril/rpc/connect/dial.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/timer.h"

namespace tendril::rpc::detail {

class ConnectionState;
class SocketLink;

/// Connects to a peer. Repeats the attempts (dial.h) while the peer is alive but busy. Used on the leader thread
/// only, except for the constructors.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  /// Called with the error, or null after success.
  using Done = std::function<void(const std::exception_ptr&)>;

  /// For a new session. `done` gets PeerLostError (no process listens there), TimeoutError (at the deadline),
  /// MessageError, or UsageError (it is another worker than expected, or it refuses).
  Connector(const std::shared_ptr<Agent::Impl>& agent, WorkerInfo peer, Agent::Endpoint endpoint,
            Clock::time_point deadline, Done done);
  /// For a session without a connection. Finishes when the session has a connection or has ended. Ends the session if
  /// the peer's process is gone, or if the peer no longer knows the session. After a loss, the side that accepted the
  /// lost connection only checks that the peer is alive, and waits for it to connect again. If both sides had
  /// connected at the same time, both may wait for each other, so this side connects after a while.
  Connector(const std::shared_ptr<Agent::Impl>& agent, std::shared_ptr<Session> session);

  void start();
  /// Stops connecting: this worker is being shut down, or the peer has made a connection for the session.
  void cancel();
  bool is_for(const Session& session) const noexcept { return session_.get() == &session && !over_; }

 private:
  std::shared_ptr<Agent::Impl> agent() const;  ///< throws UsageError if the agent no longer exists
  Hello introduce();
  void ended(Dial::Outcome&& outcome);
  void answered(Dial::Answered answer);
  void failed(const Dial::Failed& failure);
  void unreached(const Dial::Unreached& how);
  void retry(const std::string& why);
  void wait_until(Clock::time_point when, void (Connector::*then)());
  void attempt_timed_out();
  void finish(const std::exception_ptr& error, uint32_t next_session = 0);
  std::string describe() const;
  ConnectionState& state() const;  ///< of the session

  // No member may own the loop: the loop's queue holds this object until it has finished.
  const std::weak_ptr<Agent::Impl> agent_;
  const WorkerInfo peer_;
  const Agent::Endpoint endpoint_;
  const Clock::time_point deadline_;        // for a new session
  const std::shared_ptr<Session> session_;  // has no connection; null: a new session
  const std::shared_ptr<SocketLink> link_;  // the session's
  Done done_;

  std::weak_ptr<Dial> dial_;  // the current attempt, which keeps this object alive; null between attempts
  Timer timer_;
  std::chrono::milliseconds pause_{1};
  bool over_ = false;
  Hello mine_;
};

}  // namespace tendril::rpc::detail
