#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/handshake.h"
#include "tendril/rpc/transport/private_folder.h"

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
  void accept_unix();
  void accept_tcp();
  void retry_later(boost::asio::steady_timer& timer, void (Listener::*accept)(), const std::string& why);
  void accepted(UniqueFd socket, bool tcp, const std::string& from);

  const std::weak_ptr<Agent::Impl> agent_;
  const Ref<class Loop> loop_;
  Agent::Endpoint endpoint_;
  std::optional<PrivateFolder> folder_;
  std::atomic<bool> closed_{false};
  boost::asio::local::stream_protocol::acceptor unix_;
  boost::asio::ip::tcp::acceptor tcp_;
  boost::asio::steady_timer retry_unix_, retry_tcp_;
  // Of either kind so many: strangers at the TCP port keep no worker of this user from the Unix-domain socket.
  const std::shared_ptr<Handshake::Others> unix_handshakes_, tcp_handshakes_;  // the leader's
};

}  // namespace tendril::rpc::detail
