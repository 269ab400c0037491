#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tendril/rpc/connect/half_open.h"
#include "tendril/rpc/connect/handshake_stream.h"
#include "tendril/rpc/threads/timer.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

class Handshake;
class TlsContext;

constexpr std::chrono::seconds kHandshakeTimeout{5};

/// Decides about accepted connections: the agent that listens. Called on the reactor's thread.
class Admission {
 public:
  virtual ~Admission() = default;

  /// The TLS context for TCP connections; null: they are not secured (simulations). May throw UsageError.
  virtual std::shared_ptr<const TlsContext> security() = 0;
  /// Returns this worker's hello to `to`.
  virtual Hello introduction(const WorkerInfo& to) = 0;
  /// The other side has authenticated and sent `theirs`. Answers by `Handshake::say`, `refuse` or `release`; the
  /// connection is closed unless it was released. An exception is sent to the other side as a refusal.
  virtual void introduced(Handshake& handshake, const Hello& theirs) = 0;
  /// A connection was refused.
  virtual void refused(const std::string& why) = 0;
  /// Whether connections are closed without a refusal, as if no process listened here.
  virtual bool is_closed() const = 0;
};

/// The first exchange of a connection, from the side that accepts: TLS if it is a TCP connection, then the other side's
/// hello, about which the Admission decides. Accepts kMaxHelloBytes and takes kHandshakeTimeout at most. If it fails,
/// only the other side is told, and it learns nothing about the group before it has authenticated.
///
/// Used on the reactor's thread only. Keeps itself alive until it is over.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  /// The handshakes of one listener that are not over.
  struct Others {
    Others(std::string worker, std::size_t most);
    /// Logs a refused connection, but each text once a minute at most.
    void note(const std::string& text);

    const std::string worker;
    HalfOpen<Handshake> half_open;
    RefusalNotes notes;
  };

  /// `from`: the other side's address, for the log.
  Handshake(Reactor& reactor, std::shared_ptr<Admission> admission, std::unique_ptr<Stream> stream, bool tcp,
            std::string from, std::shared_ptr<Others> others);
  ~Handshake();
  void start();
  void close();

  // ---- for Admission::introduced
  /// Returns false if it could not be sent.
  bool say(const Hello& hello);
  /// Sends a refusal and closes the connection. `session`: the number of this worker's session with the other side.
  void refuse(const std::string& why, RefusalKind kind, uint32_t session = 1);
  /// As refuse, and logs it.
  void refuse_and_note(const std::string& why, RefusalKind kind);
  bool other_side_has_gone() noexcept { return stream_.other_side_has_gone(); }
  /// The stream, for a link. `plain`: as HandshakeStream::release.
  std::unique_ptr<Stream> release(bool plain);

 private:
  void expect(std::size_t bytes);
  void received(const std::exception_ptr& error);
  void advance();
  void fail(const std::string& why);

  const std::shared_ptr<Admission> admission_;
  HandshakeStream stream_;
  Timer timer_;
  const bool tcp_;
  const std::string from_;
  const std::shared_ptr<Others> others_;
  bool authenticated_ = false;
  Bytes received_;
};

}  // namespace tendril::rpc::detail
