#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/session/half_open.h"
#include "tendril/rpc/session/handshake_stream.h"
#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/threads/timer.h"
#include "tendril/rpc/transport/socket_link.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

constexpr std::chrono::seconds kHandshakeTimeout{5};

/// What this agent says of itself on a new connection with `peer`.
Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer);

/// The key that this agent's TCP connections prove: its own, or, where it was given none, this user's, which is good
/// for loopback only. Throws UsageError.
SharedKey key_of(const Agent::Impl& agent);
/// Throws UsageError, which says how to make a key, for a routable address where the agent was given neither a key nor
/// a certificate.
void check_reachable(const Agent::Impl& agent, const std::string& what, const std::string& host, bool loopback);

SocketLinkOptions link_options(const Agent::Impl& agent, const Hello& mine, const Hello& theirs);

/// Makes a connection the link of the worker that said `theirs`, to which this agent has said `mine`, and adds it
/// as a peer.
void adopt_connection(Agent::Impl& agent, std::unique_ptr<Stream> connection, const Hello& mine, const Hello& theirs,
                      Reach reach, bool dialled);
/// What a hello says of the session that is to go on.
ConnectionState::Hello said_of_session(const Hello& hello);

/// The accepting side of the first exchange: over TCP the proof of the key (proof.h) or the handshake of TLS, then
/// the other's Hello, which is checked and answered. Takes kMaxHelloBytes and kHandshakeTimeout at most, and tells
/// nobody but the other side if it fails, which learns nothing of the group before it has proven itself. The leader's.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  /// Those that are going on at one listener.
  struct Others {
    explicit Others(const Agent::Impl& agent);
    void note(const std::string& text);  ///< says it on the error output, now and then

    const std::string worker;
    HalfOpen<Handshake> half_open;
    RefusalNotes notes;
  };

  /// `from` names the other side in what is said of it.
  Handshake(std::shared_ptr<Agent::Impl> agent, std::unique_ptr<Stream> stream, bool tcp, std::string from,
            std::shared_ptr<Others> others);
  ~Handshake();
  void start();
  void close();

 private:
  void expect(std::size_t bytes);
  void received(const std::exception_ptr& error);
  bool advance();
  bool answer_challenge();
  bool answer_hello();
  bool answer_enquiry(const Hello& theirs);
  bool go_on(const Hello& mine, const Hello& theirs);
  bool refuse_by_group(GroupEvents& events, const Hello& theirs);
  void refuse(const std::string& why);
  void say_refusal(const std::string& why, RefusalKind kind, uint32_t next_session = 1);
  bool say(const Hello& hello);

  const std::shared_ptr<Agent::Impl> agent_;
  HandshakeStream stream_;
  Timer timer_;
  const bool tcp_;
  const std::string from_;
  const std::shared_ptr<Others> others_;
  std::optional<Proof> proof_;  // over TCP without TLS
  bool challenged_ = false, proven_ = false;
  Bytes received_;
};

}  // namespace tendril::rpc::detail
