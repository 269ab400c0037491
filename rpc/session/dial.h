#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/session/handshake_stream.h"
#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/timer.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

class ConnectionState;
class SocketLink;

/// Connects to a peer and makes the first exchange, from the side that connects: over TCP the proof of the key
/// (proof.h) or the handshake of TLS, then the hellos. Tries again while the peer is there but too busy. On the
/// leader's thread only, but for the constructor.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  /// With what it ended; null: it succeeded.
  using Done = std::function<void(const std::exception_ptr&)>;

  /// For a new session. `done` is told PeerLostError (nobody there), TimeoutError (by the deadline), MessageError or
  /// UsageError (it is not the worker that it should be, or refuses).
  Dial(const std::shared_ptr<Agent::Impl>& agent, WorkerInfo peer, Agent::Endpoint endpoint, Clock::time_point deadline,
       Done done);
  /// For a session without a connection, until it has one or has ended. Ends it where the peer's process is gone, and
  /// where the peer knows it no more. Of a lost connection, the side that was connected to at first only asks
  /// whether the peer is there, which will connect anew; where dials have crossed, both may be that side, and so it
  /// dials later.
  Dial(const std::shared_ptr<Agent::Impl>& agent, std::shared_ptr<Session> session);

  void start();
  /// Ends it: this worker is shut down, or its session has got a connection that the peer has made.
  void cancel();
  bool is_for(const Session& session) const noexcept { return session_.get() == &session && !over_; }

 private:
  void try_next_address();
  void connecting(std::unique_ptr<Stream> stream);
  void connected();
  void secured();
  void introduce(Agent::Impl& agent);
  void send(const Bytes& bytes);
  void expect(std::size_t bytes);
  void read_rest(std::size_t have);
  HandshakeStream::Done next(void (Dial::*step)());
  [[noreturn]] void raise(const std::exception_ptr& error) const;
  void advance();
  void answered();
  void not_reached(int error);
  void failed();
  void retry(const std::string& why);
  void wait_until(Clock::time_point when, void (Dial::*then)());
  void attempt_timed_out();
  void finish(const std::exception_ptr& error, uint32_t next_session = 0);
  std::string describe() const;
  ConnectionState& state() const;  ///< of the session

  // Nothing here keeps the loop: its own queue holds this until it ends.
  const std::weak_ptr<Agent::Impl> agent_;
  const WorkerInfo peer_;
  const Agent::Endpoint endpoint_;
  const Clock::time_point deadline_;        // for a new session
  const std::shared_ptr<Session> session_;  // whose connection was lost; null: a new one is made
  const std::shared_ptr<SocketLink> link_;  // the session's
  Done done_;

  HandshakeStream stream_;
  Timer timer_;
  std::chrono::milliseconds pause_{1};
  uint64_t attempt_ = 0;

  // Of this attempt.
  int next_address_ = 0;
  bool tcp_ = false;
  const char* phase_ = "";
  std::vector<std::string> unreached_;        // why each address was not
  bool nobody_ = true;                        // for sure: no process listens at any of them
  std::optional<Proof> proof_;                // over TCP without TLS
  bool said_hello_ = false, proven_ = false;  // the other side's being who it should be
  bool over_ = false;
  Hello mine_;
  Bytes answer_;
};

}  // namespace tendril::rpc::detail
