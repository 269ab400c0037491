#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/transport/sockets.h"
#include "tendril/rpc/transport/unique_fd.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

constexpr std::chrono::seconds kHandshakeTimeout{5};

/// What this agent says of itself on a new connection with `peer`.
Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer);

/// Makes a connected socket the link of the worker that said `theirs`, and adds it as a peer.
void adopt_socket(Agent::Impl& agent, UniqueFd socket, bool tcp, const Hello& theirs);

/// The accepting side of the first exchange: waits for the other's Hello, checks it, answers. Takes kMaxHelloBytes and
/// kHandshakeTimeout at most, and tells nobody but the other side if it fails.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  Handshake(std::shared_ptr<Agent::Impl> agent, UniqueFd socket, bool tcp, std::function<void()> ended);
  ~Handshake();
  void start();
  void close();

 private:
  void read();
  bool answer();
  void refuse(const std::string& why);
  bool say(const Hello& hello);

  const std::shared_ptr<Agent::Impl> agent_;
  boost::asio::posix::stream_descriptor stream_;
  boost::asio::steady_timer timer_;
  const bool tcp_;
  const std::function<void()> ended_;
  Bytes received_;
  std::size_t count_ = 0;  // of bytes in received_ that have come
};

}  // namespace tendril::rpc::detail
