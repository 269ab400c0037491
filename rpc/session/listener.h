#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/handshake.h"
#include "tendril/rpc/threads/timer.h"
#include "tendril/rpc/transport/network.h"

namespace tendril::rpc::detail {

/// Accepts an agent's peers.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  static std::shared_ptr<Listener> open(std::shared_ptr<Agent::Impl> agent, const Agent::ListenOptions& options);
  explicit Listener(std::shared_ptr<Agent::Impl> agent);
  void start();  ///< accepts from here on; once

  const Agent::Endpoint& endpoint() const noexcept { return endpoint_; }
  bool is_open() const noexcept { return !closed_; }
  bool somebody_connects();  ///< and is not accepted yet, or has not introduced itself; the leader's
  void close();              ///< any thread; the socket's folder is gone when it returns

 private:
  void listen_unix(bool optional);
  void listen_tcp(const Agent::ListenOptions& options);
  /// The acceptor of one kind of connection, Unix-domain or TCP.
  struct Door {
    std::unique_ptr<Acceptor> acceptor;  // null: not listening
    Timer retry;
    // Limited for each kind separately: strangers at the TCP port cannot keep this user's workers from the Unix-domain
    // socket.
    const std::shared_ptr<Handshake::Others> handshakes;  // the leader's
  };
  void accept(Door& door);
  void accepted(Door& door, Acceptor::Accepted connection);
  void retry_later(Door& door, int error);

  const std::weak_ptr<Agent::Impl> agent_;
  const Ref<class Loop> loop_;
  Agent::Endpoint endpoint_;
  std::atomic<bool> closed_{false};
  Door unix_, tcp_;
};

}  // namespace tendril::rpc::detail
