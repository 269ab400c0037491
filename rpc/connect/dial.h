#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tendril/rpc/connect/handshake_stream.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

class TlsContext;

/// One attempt to connect to another worker: opens a connection, secures it with TLS if it is a TCP connection, sends
/// a hello and receives one. New sessions, sessions that have lost their connection, and enquiries to rank 0 use it.
/// It has no time limit; its owner cancels it.
///
/// Used on the reactor's thread only. Keeps itself alive from `start` until its outcome.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  /// Where to connect. The Unix-domain socket is tried first.
  struct Addresses {
    std::string unix_path = {};  ///< empty: none
    std::optional<boost::asio::ip::tcp::endpoint> tcp = {};
    std::string unusable = {};  ///< why `tcp` is empty although the worker has a TCP address
  };

  /// The other side has answered. The stream may already have received bytes that follow its hello.
  struct Answered {
    Hello hello;
    HandshakeStream& stream;
  };
  /// No connection was made.
  struct Unreached {
    std::string why;
    bool no_listener = false;  ///< true only if no process listens at any of the addresses
  };
  /// Another attempt may succeed.
  struct Interrupted {
    std::string why;
  };
  /// The other side broke the protocol or could not be authenticated (AuthenticationError, MessageError, UsageError),
  /// or this side failed (for example, UsageError if it has no key).
  struct Failed {
    std::exception_ptr error;
    bool authenticated = false;  ///< it is a worker of this user, or has the key or a certificate
  };
  using Outcome = std::variant<Answered, Unreached, Interrupted, Failed>;

  /// Called at most once, and not after `cancel`.
  using Done = std::function<void(Outcome&&)>;
  /// The owner's part of an attempt. A function that throws ends it (Failed).
  struct Owner {
    /// Called when the connection has been made, so that the other side is known to be there. Returns false to end the
    /// attempt (Interrupted).
    std::function<bool()> on_connected;
    /// Returns the TLS context for a TCP connection; null if the network is trusted (Network::is_trusted).
    std::function<std::shared_ptr<const TlsContext>()> security;
    /// Called when the other side has authenticated. Returns the hello to send.
    std::function<Hello()> introduce;
    Done done;
  };

  Dial(Reactor& reactor, Addresses addresses, Owner owner);

  void start();
  /// Closes the connection, unless the stream has been released from `Answered`.
  void cancel();
  /// For errors: "connecting" or "waiting for its hello".
  const char* phase() const noexcept { return phase_; }
  bool is_connecting() const noexcept { return connecting_; }  ///< false once there is a connection

 private:
  void try_next_address();
  void begun(std::unique_ptr<Stream> stream, int error);
  void connected();
  void not_reached(int error);
  void secured();
  void introduce();
  void read(std::size_t have);
  void advance();
  HandshakeStream::Done next(void (Dial::*step)());
  void end(Outcome&& outcome);

  const Addresses addresses_;
  Owner owner_;  // `done` is empty once the attempt has finished or was cancelled

  HandshakeStream stream_;
  int next_address_ = 0;
  bool tcp_ = false, connecting_ = true, authenticated_ = false, nobody_listens_ = true;
  const char* phase_ = "connecting";
  std::string unreached_;  // why each address was not reached
  Bytes answer_;
};

}  // namespace tendril::rpc::detail
