#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "tendril/rpc/connect/handshake.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/timer.h"
#include "tendril/rpc/transport/network.h"

namespace tendril::rpc::detail {

/// Accepts connections at a worker's addresses and starts a Handshake on each. The Admission decides which peers may
/// connect.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  struct Options {
    std::string worker;              ///< this worker's name, for the log
    std::size_t max_half_open = 64;  ///< limit of concurrent handshakes for each kind of socket
  };
  Listener(const Ref<Loop>& loop, std::weak_ptr<Admission> admission, const Options& options);

  // Call these before `start`. They throw UsageError or boost::system::system_error.
  void listen_unix();
  void listen_tcp(const boost::asio::ip::tcp::endpoint& at);
  void listen_tcp(int socket);  ///< a duplicate of a socket that is already listening
  /// Starts to accept connections. Call it once.
  void start();

  std::string unix_path() const;                                       ///< empty: none
  std::optional<boost::asio::ip::tcp::endpoint> tcp_endpoint() const;  ///< nullopt: none
  bool is_open() const noexcept { return !closed_; }
  /// Whether a connection waits to be accepted, or has not sent its hello. Called on the reactor's thread.
  bool has_connecting_peers();
  /// Thread-safe. When it returns, the folder of the Unix-domain socket has been removed.
  void close();

 private:
  /// One kind of socket.
  struct ListeningSocket {
    std::unique_ptr<Acceptor> acceptor;  // null: not listening
    Timer retry;
    // Each kind has a separate limit, so that strangers at the TCP port cannot lock this user's workers out of the
    // Unix-domain socket. Used on the reactor's thread.
    const std::shared_ptr<Handshake::Pending> handshakes;
  };
  void accept(ListeningSocket& socket);
  void accepted(ListeningSocket& socket, Acceptor::Accepted connection);
  void retry_later(ListeningSocket& socket, int error);

  const Ref<Loop> loop_;
  const std::weak_ptr<Admission> admission_;
  std::atomic<bool> closed_{false};
  ListeningSocket unix_, tcp_;
};

}  // namespace tendril::rpc::detail
