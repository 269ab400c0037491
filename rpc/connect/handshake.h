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

/// Decides about accepted connections. The agent that listens implements it. Called on the reactor's thread.
class Admission {
 public:
  virtual ~Admission() = default;

  /// Returns the TLS context for TCP connections, or null to leave them without TLS (simulations). May throw
  /// UsageError.
  virtual std::shared_ptr<const TlsContext> security() = 0;
  /// Returns this worker's hello to `to`.
  virtual Hello introduction(const WorkerInfo& to) = 0;
  /// Called when the other side has authenticated and sent its hello, `theirs`. Answers with `Handshake::say`,
  /// `refuse` or `release`; the connection is then closed unless it was released. An exception becomes a refusal.
  virtual void introduced(Handshake& handshake, const Hello& theirs) = 0;
  /// Called when a connection has been refused.
  virtual void refused(const std::string& why) = 0;
  /// Whether connections are closed without a refusal, as if no process listened here.
  virtual bool is_closed() const = 0;
};

/// The first exchange of an accepted connection: TLS if it is a TCP connection, and then the other side's hello, about
/// which the Admission decides. Reads at most kMaxHelloBytes and takes at most kHandshakeTimeout. Errors in
/// authentication or in the hello are logged and reported to the other side: as a TLS alert before it has
/// authenticated, and as a refusal afterwards.
///
/// Used on the reactor's thread only. Keeps itself alive until it has finished.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  /// The unfinished handshakes of one listening socket.
  struct Pending {
    Pending(std::string worker, std::size_t most);
    /// Logs a refused connection. Each text is logged at most once a minute.
    void note(const std::string& text);

    const std::string worker;
    HalfOpen<Handshake> half_open;
    RefusalNotes notes;
  };

  /// `from`: the other side's address, for the log.
  Handshake(Reactor& reactor, std::shared_ptr<Admission> admission, std::unique_ptr<Stream> stream, bool tcp,
            std::string from, std::shared_ptr<Pending> pending);
  ~Handshake();
  void start();
  void close();

  // ---- for Admission::introduced
  /// Returns false if it could not be sent.
  bool say(const Hello& hello);
  /// Sends a refusal and closes the connection. `session`: the number of this worker's session with the other side.
  void refuse(const std::string& why, RefusalKind kind, uint32_t session = 1);
  /// Same as `refuse`, and logs the reason.
  void refuse_and_note(const std::string& why, RefusalKind kind);
  bool peer_closed() noexcept { return stream_.peer_closed(); }
  /// Releases the stream to a link. `plain`: see HandshakeStream::release.
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
  const std::shared_ptr<Pending> pending_;
  bool authenticated_ = false;
  Bytes received_;
};

}  // namespace tendril::rpc::detail
