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

/// One attempt to connect to another worker, from the side that connects: opens a connection, secures it with TLS if it
/// is a TCP connection, says a hello and receives one. A session, a session that has lost its connection, and an
/// enquiry whether a worker may join all begin with it. Has no time limit: its owner cancels it.
///
/// Used on the reactor's thread only. Keeps itself alive from `start` to its outcome.
class Dial : public std::enable_shared_from_this<Dial> {
 public:
  /// Where to connect. The Unix-domain socket is tried first.
  struct Addresses {
    std::string unix_path = {};  ///< empty: none
    std::optional<boost::asio::ip::tcp::endpoint> tcp = {};
    std::string unusable = {};  ///< why `tcp` is not set although there is a TCP address
  };

  /// The other side has answered. The stream may already have received bytes that follow its hello.
  struct Answered {
    Hello hello;
    HandshakeStream& stream;
  };
  /// No connection was made.
  struct Unreached {
    std::string why;
    bool nobody_listens = false;  ///< certainly no process listens at any of the addresses
  };
  /// Another attempt may succeed.
  struct Interrupted {
    std::string why;
  };
  /// The other side has said something wrong. AuthenticationError, MessageError or UsageError.
  struct Failed {
    std::exception_ptr error;
    bool authenticated = false;  ///< it is a worker of this user, or has the key or a certificate
  };
  using Outcome = std::variant<Answered, Unreached, Interrupted, Failed>;

  /// Called at most once, unless `cancel` is called first.
  using Done = std::function<void(Outcome&&)>;
  /// Called when the connection has been made and the other side has authenticated: returns the hello to say, or
  /// nothing to give up (Interrupted).
  using Introduce = std::function<std::optional<Hello>()>;
  /// Returns the TLS context for a TCP connection; null: not to be secured (simulations). May throw UsageError.
  using Security = std::function<std::shared_ptr<const TlsContext>()>;

  Dial(Reactor& reactor, Addresses addresses, Security security, Introduce introduce, Done done);

  void start();
  /// Closes the connection, unless `Answered` has taken it.
  void cancel();
  /// For errors: "connecting" or "waiting for it to introduce itself".
  const char* phase() const noexcept { return phase_; }
  bool is_connecting() const noexcept { return connecting_; }  ///< rather than waiting for an answer

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
  const Security security_;
  const Introduce introduce_;
  Done done_;  // empty: over

  HandshakeStream stream_;
  int next_address_ = 0;
  bool tcp_ = false, connecting_ = true, authenticated_ = false, nobody_listens_ = true;
  const char* phase_ = "connecting";
  std::string unreached_;  // why each address was not reached
  Bytes answer_;
};

}  // namespace tendril::rpc::detail
