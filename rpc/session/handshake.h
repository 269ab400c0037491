#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/half_open.h"
#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/session/session.h"
#include "tendril/rpc/transport/sockets.h"
#include "tendril/rpc/transport/unique_fd.h"
#include "tendril/rpc/wire/hello.h"

namespace tendril::rpc::detail {

constexpr std::chrono::seconds kHandshakeTimeout{5};

/// What this agent says of itself on a new connection with `peer`.
Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer);

/// The key that this agent's TCP connections prove: its own, or, where it was given none, this user's, which is good
/// for loopback only. Throws UsageError.
SharedKey key_of(const Agent::Impl& agent);
/// Throws UsageError, which says how to make a key, for a routable address where the agent was given none.
void check_reachable(const Agent::Impl& agent, const std::string& what, const std::string& host, bool loopback);

/// Makes a connected socket the link of the worker that said `theirs`, to which this agent has said `mine`, and adds it
/// as a peer.
void adopt_socket(Agent::Impl& agent, UniqueFd socket, bool tcp, const Hello& mine, const Hello& theirs, Reach reach);

/// The accepting side of the first exchange: over TCP the proof of the key (proof.h), then the other's Hello, which is
/// checked and answered. Takes kMaxHelloBytes and kHandshakeTimeout at most, and tells nobody but the other side if it
/// fails, which learns nothing of the group before it has proven the key. The leader's.
class Handshake : public std::enable_shared_from_this<Handshake> {
 public:
  /// Those that are going on at one listener.
  struct Others {
    explicit Others(std::string name) : worker(std::move(name)) {}
    void note(const std::string& text);  ///< says it on the error output, now and then

    const std::string worker;
    HalfOpen<Handshake> half_open{max_half_open()};
    RefusalNotes notes;
  };

  /// `from` names the other side in what is said of it.
  Handshake(std::shared_ptr<Agent::Impl> agent, UniqueFd socket, bool tcp, std::string from,
            std::shared_ptr<Others> others);
  ~Handshake();
  void start();
  void close();

 private:
  void expect(std::size_t bytes);
  void read();
  bool advance();
  bool answer_challenge();
  bool answer_hello();
  bool go_on(const Hello& mine, const Hello& theirs);
  void refuse(const std::string& why);
  bool say(const Hello& hello);
  bool send(const Bytes& bytes);

  const std::shared_ptr<Agent::Impl> agent_;
  boost::asio::posix::stream_descriptor stream_;
  boost::asio::steady_timer timer_;
  const bool tcp_;
  const std::string from_;
  const std::shared_ptr<Others> others_;
  std::optional<Proof> proof_;  // over TCP
  bool challenged_ = false, proven_ = false;
  Bytes received_;
  std::size_t count_ = 0;  // of bytes in received_ that have come
};

}  // namespace tendril::rpc::detail
