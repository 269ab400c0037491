#include "tendril/rpc/launch/rendezvous_host.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <deque>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/threads/signal_mask.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {
constexpr auto kJoinTime = 5s;
constexpr auto kLinger = 2s;

std::pair<std::span<const std::byte>, std::span<const std::byte>> split(const Bytes& bytes, std::size_t tag) {
  const std::span<const std::byte> all(bytes);
  return {all.first(all.size() - tag), all.last(tag)};
}
}  // namespace

struct RendezvousHost::Peer {
  Peer(tcp::socket connected, const SharedKey& key)
      : socket(std::move(connected)),
        join_timer(socket.get_executor()),
        proof(key, ProofPurpose::rendezvous, Proof::Role::acceptor) {
    error_code gone;
    from = socket.remote_endpoint(gone).address().to_string();
  }
  void close() {
    error_code ignored;
    socket.close(ignored);
  }

  RendezvousServer::Connection id = 0;
  tcp::socket socket;
  asio::steady_timer join_timer;
  Proof proof;
  std::string from;     // its address
  bool joined = false;  // or at least took its first step
  Bytes incoming;
  std::size_t have = 0;  // of incoming, while the challenge comes
  std::deque<Bytes> outgoing;
  bool close_when_written = false;
  bool closed = false;
};

RendezvousHost::RendezvousHost(const tcp::endpoint& address, int world_size, std::string group, SharedKey key)
    : key_(std::move(key)),
      strangers_(static_cast<std::size_t>(world_size) + max_half_open()),
      server_(world_size, std::move(group)) {
  error_code error;
  acceptor_.open(address.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(address, error);
  // A copy: std::max takes references, and Asio only declares the constant.
  const int backlog = asio::socket_base::max_listen_connections;
  if (!error) acceptor_.listen(std::max(world_size, backlog), error);
  TENDRIL_CHECK_AS(UsageError, !error, "rank 0 cannot listen on ", address.address().to_string(), ":", address.port(),
                   ": ", error.message(), "; choose another master_port (MASTER_PORT)");
  start();
}

RendezvousHost::RendezvousHost(int listener, int world_size, std::string group, SharedKey key)
    : key_(std::move(key)),
      strangers_(static_cast<std::size_t>(world_size) + max_half_open()),
      server_(world_size, std::move(group)) {
  const int copy = ::fcntl(listener, F_DUPFD_CLOEXEC, 0);
  TENDRIL_CHECK_AS(UsageError, copy >= 0, "rank 0 has not inherited a socket to listen on");
  acceptor_.assign(tcp::v4(), copy);
  start();
}

void RendezvousHost::start() {
  ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  accept();
  note_missing(0s);
  const SignalMask mask;
  thread_ = std::thread([this] { io_.run(); });
}

RendezvousHost::~RendezvousHost() {
  asio::post(io_, [this] {
    stopping_ = true;
    linger_.expires_after(kLinger);
    linger_.async_wait([this](const error_code& error) {
      if (!error) io_.stop();
    });
    stop_when_done();
  });
  thread_.join();
}

void RendezvousHost::fail(const std::string& text) {
  asio::post(io_, [this, text] {
    server_.fail(GroupFailure::usage, text);
    act();
  });
}

void RendezvousHost::note_missing(std::chrono::seconds waited) {
  if (waited > 0s)
    log(LogLevel::warn, "rank 0",
        "rpc: rank 0 has waited " + std::to_string(waited.count()) +
            " s for these workers to join: " + server_.describe_missing());
  note_.expires_after(std::max<std::chrono::seconds>(waited, kFirstNote));
  note_.async_wait([this, waited](const error_code& error) {
    if (!error && !server_.complete() && !server_.failed()) note_missing(waited == 0s ? kFirstNote : 2 * waited);
  });
}

void RendezvousHost::stop_when_done() {
  if (!stopping_ || (server_.failed() && !server_.all_told())) return;
  for (const auto& [id, peer] : peers_)
    if (!peer->outgoing.empty()) return;
  io_.stop();
}

void RendezvousHost::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      accepted(std::move(socket));
      return accept();
    }
    // Out of descriptors, most likely: give others time to return some.
    note_refused("whoever connects now: " + error.message());
    strangers_.close_oldest(Clock::now());
    auto pause = std::make_shared<asio::steady_timer>(io_, 50ms);
    pause->async_wait([this, pause](const error_code&) { accept(); });
  });
}

void RendezvousHost::accepted(tcp::socket socket) {
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  const auto now = Clock::now();
  if (!strangers_.make_room(now)) return;
  auto peer = std::make_shared<Peer>(std::move(socket), key_);
  peer->id = ++last_connection_;
  peers_[peer->id] = peer;
  strangers_.add(peer, now);
  peer->join_timer.expires_after(kJoinTime);
  peer->join_timer.async_wait([this, peer](const error_code& cancelled) {
    if (!cancelled && !peer->joined) refuse(peer, "it has not joined within 5 s");
  });
  read_challenge(peer);
}

/// Reads the first message of the proof and answers it; then the join has to come.
void RendezvousHost::read_challenge(const std::shared_ptr<Peer>& peer) {
  if (peer->incoming.empty()) peer->incoming.resize(kProofPrefixBytes);
  const auto missing = asio::buffer(peer->incoming) + peer->have;
  asio::async_read(peer->socket, missing, [this, peer](const error_code& error, std::size_t bytes) {
    if (error) return drop(peer);
    peer->have += bytes;
    try {
      const std::size_t size = proof_size(peer->incoming).value_or(kProofPrefixBytes);
      if (size > peer->have) {
        peer->incoming.resize(size);
        return read_challenge(peer);
      }
      say(peer, peer->proof.answer(peer->incoming));
      read_prefix(peer);
    } catch (const RpcError& e) {
      refuse(peer, e.what());
    }
  });
}

void RendezvousHost::read_prefix(const std::shared_ptr<Peer>& peer) {
  peer->incoming.resize(kRendezvousPrefixBytes);
  asio::async_read(peer->socket, asio::buffer(peer->incoming), [this, peer](const error_code& error, std::size_t) {
    if (error) return drop(peer);
    try {
      if (!peer->joined && is_proof(peer->incoming)) return refuse(peer, "it says that the keys differ");
      read_body(peer, rendezvous_body_size(peer->incoming, peer->joined ? kMaxContributionBytes : kMaxJoinBytes));
    } catch (const MessageError& e) {
      refuse(peer, e.what());
    }
  });
}

void RendezvousHost::read_body(const std::shared_ptr<Peer>& peer, std::size_t size) {
  const std::size_t tag = peer->joined ? 0 : kTagBytes;
  peer->incoming.resize(kRendezvousPrefixBytes + size + tag);
  const auto body = asio::buffer(peer->incoming) + kRendezvousPrefixBytes;
  asio::async_read(peer->socket, body, [this, peer, tag](const error_code& error, std::size_t) {
    if (error) return drop(peer);
    try {
      if (tag > 0) {
        const auto [said, proof] = split(peer->incoming, tag);
        peer->proof.check(said, proof);
        peer->incoming.resize(said.size());
      }
      const RendezvousMessage message = decode_rendezvous(peer->incoming);
      peer->joined = true;
      strangers_.remove(peer.get());
      peer->join_timer.cancel();
      server_.received(peer->id, message, Clock::now());
    } catch (const RpcError& e) {
      return refuse(peer, e.what());
    }
    act();
    if (!peer->closed && !peer->close_when_written) read_prefix(peer);
  });
}

/// A stranger learns that Tendril listens here, and that it has not proven what is asked for.
void RendezvousHost::refuse(const std::shared_ptr<Peer>& peer, const std::string& why) {
  if (peer->closed) return;
  note_refused(peer->from + ": " + why);
  if (!peer->joined && peer->outgoing.empty()) {
    const Bytes refusal = encode_proof_refusal("no proof of the key that is asked for here");
    ::send(peer->socket.native_handle(), refusal.data(), refusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  drop(peer);
}

void RendezvousHost::note_refused(const std::string& why) {
  server_.note_refused("a connection from " + why);
  if (const auto line = notes_.add(why, Clock::now()))
    log(LogLevel::warn, "rank 0", "rpc: rank 0's rendezvous refused a connection from " + *line);
}

void RendezvousHost::say(const std::shared_ptr<Peer>& peer, Bytes bytes) {
  peer->outgoing.push_back(std::move(bytes));
  if (peer->outgoing.size() == 1) write(peer);
}

void RendezvousHost::act() {
  for (RendezvousServer::Action& action : server_.take_actions()) {
    const auto found = peers_.find(action.to);
    if (found == peers_.end()) continue;
    const std::shared_ptr<Peer> peer = found->second;
    peer->close_when_written |= action.close;
    if (!action.bytes.empty()) {
      say(peer, std::move(action.bytes));
    } else if (peer->close_when_written && peer->outgoing.empty()) {
      drop(peer);
    }
  }
  if (server_.deadline() != deadline_.expiry()) {
    deadline_.expires_at(server_.deadline());
    deadline_.async_wait([this](const error_code& error) {
      if (error) return;
      server_.on_timer(Clock::now());
      act();
    });
  }
  stop_when_done();
}

void RendezvousHost::write(const std::shared_ptr<Peer>& peer) {
  asio::async_write(peer->socket, asio::buffer(peer->outgoing.front()),
                    [this, peer](const error_code& error, std::size_t) {
                      if (error || peer->closed) return drop(peer);
                      peer->outgoing.pop_front();
                      if (!peer->outgoing.empty()) return write(peer);
                      if (peer->close_when_written) return drop(peer);
                      stop_when_done();
                    });
}

void RendezvousHost::drop(const std::shared_ptr<Peer>& peer) {
  if (std::exchange(peer->closed, true)) return;
  strangers_.remove(peer.get());
  peer->outgoing.clear();
  peer->join_timer.cancel();
  error_code ignored;
  peer->socket.shutdown(tcp::socket::shutdown_send, ignored);
  peer->socket.close(ignored);
  peers_.erase(peer->id);
  server_.closed(peer->id);
  act();
}

}  // namespace tendril::rpc::detail
