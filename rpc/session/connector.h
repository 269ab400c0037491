#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tendril/rpc/connect/dial.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/timer.h"

namespace tendril::rpc::detail {

class ConnectionState;
class SocketLink;

/// Connects to a peer, by as many attempts (dial.h) as it takes while the peer is there but busy. Used on the leader's
/// thread only, except for the constructors.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  /// Called with the error, or null after success.
  using Done = std::function<void(const std::exception_ptr&)>;

  /// For a new session. `done` gets PeerLostError (nobody there), TimeoutError (by the deadline), MessageError or
  /// UsageError (it is not the worker that it should be, or refuses).
  Connector(const std::shared_ptr<Agent::Impl>& agent, WorkerInfo peer, Agent::Endpoint endpoint,
            Clock::time_point deadline, Done done);
  /// For a session without a connection, until it has one or has ended. Ends it if the peer's process is gone, or if
  /// the peer does not know it any more. After a lost connection, the side that did not make it only asks whether the
  /// peer is there, which will connect again; if both sides had connected at the same time, both may be that side, and
  /// therefore it connects after a while.
  Connector(const std::shared_ptr<Agent::Impl>& agent, std::shared_ptr<Session> session);

  void start();
  /// Ends it: this worker is shut down, or the peer has made a connection for the session.
  void cancel();
  bool is_for(const Session& session) const noexcept { return session_.get() == &session && !over_; }

 private:
  std::optional<Hello> introduce();
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

  // Nothing here keeps the loop: its queue holds this until it ends.
  const std::weak_ptr<Agent::Impl> agent_;
  const WorkerInfo peer_;
  const Agent::Endpoint endpoint_;
  const Clock::time_point deadline_;        // for a new session
  const std::shared_ptr<Session> session_;  // whose connection was lost; null: a new one is made
  const std::shared_ptr<SocketLink> link_;  // the session's
  Done done_;

  std::weak_ptr<Dial> dial_;  // this attempt, which keeps this object; null between attempts
  Timer timer_;
  std::chrono::milliseconds pause_{1};
  bool over_ = false;
  Hello mine_;
};

}  // namespace tendril::rpc::detail
