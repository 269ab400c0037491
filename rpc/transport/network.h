#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tendril/rpc/transport/stream.h"

namespace tendril::rpc::detail {

class Reactor;

/// Accepts connections at one address until it is closed or destroyed. After the first `wait`, use it only on the
/// reactor's thread.
class Acceptor {
 public:
  virtual ~Acceptor() = default;

  virtual std::string unix_path() const { return {}; }
  virtual boost::asio::ip::tcp::endpoint tcp_endpoint() const { return {}; }
  /// Calls `ready` once: with 0 when a connection is waiting, or with an errno. Never calls it before `wait` returns or
  /// after `close`.
  virtual void wait(std::function<void(int error)> ready) = 0;
  /// Accepts a waiting connection. `stream` is null if the connection is gone (error 0) or on an error (an errno).
  struct Accepted {
    std::unique_ptr<Stream> stream;
    std::string from;  ///< the other side's address
    int error = 0;
  };
  virtual Accepted accept() = 0;
  virtual bool has_pending() noexcept = 0;
  virtual void close() noexcept = 0;
  /// Removes its address from the file system, if it has one there. Thread-safe.
  virtual void hide() noexcept {}
};

/// Makes connections: the system's network, or that of a simulation. Thread-safe.
class Network {
 public:
  virtual ~Network() = default;

  /// A connection that is made (0), in progress (EINPROGRESS: once the stream is writable, connection_error returns
  /// the outcome), or failed (any other errno, no stream). Its socket is tuned for both small and large messages.
  struct Connecting {
    std::unique_ptr<Stream> stream;
    int error = 0;
  };
  virtual Connecting connect_unix(const std::string& path) = 0;
  virtual Connecting connect_tcp(const boost::asio::ip::tcp::endpoint& to) = 0;

  /// Starts to listen at a new address that only this user can reach. Throws UsageError.
  virtual std::unique_ptr<Acceptor> listen_unix(Reactor& reactor) = 0;
  /// Throws boost::system::system_error.
  virtual std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, const boost::asio::ip::tcp::endpoint& at) = 0;
  /// Duplicates a socket that is already listening. Throws boost::system::system_error.
  virtual std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, int socket) = 0;

  /// Whether all connections stay inside this process, so that they need no TLS (simulations).
  virtual bool is_trusted() const noexcept { return false; }
  /// Resolves a host name. Blocks for as long as the system's resolver takes.
  virtual std::vector<boost::asio::ip::address> look_up(const std::string& host, boost::system::error_code& error) = 0;
  virtual bool is_of_this_host(const boost::asio::ip::address& address) = 0;
};

/// The network of this process.
Network& network();

}  // namespace tendril::rpc::detail
