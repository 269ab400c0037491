#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/transport/unique_fd.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

class SocketLink;

/// Connects to a peer and makes the first exchange, from the side that connects: over TCP the proof of the key
/// (proof.h), then the hellos. Tries again while the peer is there
/// but too busy. On the leader's thread only, but for the constructor.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  /// With what it ended; null: it succeeded.
  using Done = std::function<void(const std::exception_ptr&)>;

  /// For a new session. `done` is told PeerLostError (nobody there), TimeoutError (by the deadline), MessageError or
  /// UsageError (it is not the worker that it should be, or refuses).
  Dial(const std::shared_ptr<Agent::Impl>& agent, WorkerInfo peer, Agent::Endpoint endpoint, Clock::time_point deadline,
       Done done);
  /// For a session whose connection was lost, until it has another or has ended. Ends it where the peer's process is
  /// gone, and where the peer knows it no more. The side that was connected to only asks whether the peer is there,
  /// which will connect anew.
  Dial(const std::shared_ptr<Agent::Impl>& agent, std::shared_ptr<Session> session);

  void start();
  void cancel();  ///< this worker is shut down

 private:
  void try_next_address();
  void connecting(UniqueFd socket);
  void connected();
  void introduce(Agent::Impl& agent);
  bool send(const Bytes& bytes);
  void expect(std::size_t bytes);
  void read();
  void advance();
  void answered();
  void not_reached(int error);
  void failed();
  void retry(const std::string& why);
  void wait_until(Clock::time_point when, void (Dial::*then)());
  void attempt_timed_out();
  void finish(const std::exception_ptr& error);
  std::string describe() const;

  // Nothing here keeps the loop: its own queue holds this until it ends.
  const std::weak_ptr<Agent::Impl> agent_;
  const WorkerInfo peer_;
  const Agent::Endpoint endpoint_;
  const Clock::time_point deadline_;
  const std::shared_ptr<Session> session_;  // whose connection was lost; null: a new one is made
  const std::shared_ptr<SocketLink> link_;  // the session's
  Done done_;

  boost::asio::posix::stream_descriptor stream_;
  boost::asio::steady_timer timer_;
  std::chrono::milliseconds pause_{1};
  uint64_t attempt_ = 0;

  // Of this attempt.
  int next_address_ = 0;
  bool tcp_ = false;
  const char* phase_ = "";
  std::vector<std::string> unreached_;        // why each address was not
  bool nobody_ = true;                        // for sure: no process listens at any of them
  std::optional<Proof> proof_;                // over TCP
  bool said_hello_ = false, proven_ = false;  // the other side's being who it should be
  Hello mine_;
  Bytes answer_;
  std::size_t count_ = 0;  // of bytes in answer_ that have come
};

}  // namespace tendril::rpc::detail
