#include "tendril/rpc/session/handshake.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/listener.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer) {
  Hello hello;
  hello.worker = agent.self;
  hello.world_size = agent.options.world_size;
  hello.group = agent.options.group;
  hello.incarnation = agent.incarnation;
  hello.limits = agent.options.limits;
  hello.request_window = agent.options.receive_limit;
  hello.devices = agent.devices_for(peer.name);
  if (const auto listener = agent.listening(); listener && agent.options.grace_period.count() > 0) {
    hello.resumption.grace_ms = static_cast<uint32_t>(agent.options.grace_period.count());
    hello.resumption.endpoint = listener->reachable_at().to_string();
  }
  return hello;
}

SharedKey key_of(const Agent::Impl& agent) { return agent.options.key ? agent.options.key : SharedKey::of_this_user(); }

void check_reachable(const Agent::Impl& agent, const std::string& what, const std::string& host, bool loopback) {
  TENDRIL_CHECK_AS(UsageError, loopback || agent.options.key, what, ": '", host,
                   "' is not a loopback address, and other hosts are refused without a shared key. ", kHowToMakeAKey);
}

void adopt_socket(Agent::Impl& agent, UniqueFd socket, bool tcp, const Hello& mine, const Hello& theirs, Reach reach) {
  const uint32_t grace_ms = std::min(mine.resumption.grace_ms, theirs.resumption.grace_ms);
  auto link = std::make_shared<SocketLink>(agent.loop, socket.release(),
                                           SocketLinkOptions{.transport = tcp ? "tcp" : "unix",
                                                             .send_limits = theirs.limits,
                                                             .receive_limits = agent.options.limits,
                                                             .send_window = theirs.request_window,
                                                             .receive_window = agent.options.receive_limit,
                                                             .max_queued_bytes = agent.options.send_limit,
                                                             .stall_timeout = agent.options.liveness_timeout,
                                                             .grace = std::chrono::milliseconds(grace_ms)});
  agent.add_peer(theirs.worker, theirs.incarnation, std::move(link), theirs.devices, std::move(reach));
}

void Handshake::Others::note(const std::string& text) {
  if (const auto line = notes.add(text, Clock::now()))
    log(LogLevel::warn, worker, "rpc: worker '" + worker + "' refused a connection from " + *line);
}

Handshake::Handshake(std::shared_ptr<Agent::Impl> agent, UniqueFd socket, bool tcp, std::string from,
                     std::shared_ptr<Others> others)
    : agent_(std::move(agent)),
      stream_(agent_->loop->io(), socket.release()),
      timer_(agent_->loop->io()),
      tcp_(tcp),
      from_(std::move(from)),
      others_(std::move(others)) {
  stream_.native_non_blocking(true);
}

Handshake::~Handshake() { others_->half_open.remove(this); }

void Handshake::start() try {
  others_->half_open.add(shared_from_this(), Clock::now());
  timer_.expires_after(kHandshakeTimeout);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    self->others_->note(self->from_ + ": it did not introduce itself within 5 s");
    self->close();
  });
  if (tcp_) proof_.emplace(key_of(*agent_), ProofPurpose::session, Proof::Role::acceptor);
  expect(tcp_ ? kProofPrefixBytes : kHelloPrefixBytes);
} catch (const std::exception& e) {  // no key
  refuse(e.what());
}

void Handshake::close() {
  timer_.cancel();
  if (stream_.is_open()) stream_.close();
}

void Handshake::expect(std::size_t bytes) {
  received_.resize(bytes);
  read();
}

void Handshake::read() {
  stream_.async_read_some(boost::asio::buffer(received_.data() + count_, received_.size() - count_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
                            if (error) return self->close();
                            self->count_ += bytes;
                            try {
                              if (self->count_ < self->received_.size()) return self->read();
                              if (!self->advance()) self->close();
                            } catch (const std::exception& e) {
                              self->refuse(e.what());
                            }
                          });
}

/// All bytes have come that were expected. False: the connection is of no use.
bool Handshake::advance() {
  const bool proof = tcp_ && (!challenged_ || is_proof(received_));
  const std::size_t size = proof ? proof_size(received_).value_or(kProofPrefixBytes)
                                 : hello_size(received_).value_or(kHelloPrefixBytes) + (tcp_ ? kTagBytes : 0);
  if (size > received_.size()) return expect(size), true;
  return proof ? answer_challenge() : answer_hello();
}

bool Handshake::answer_challenge() {
  if (const auto text = proof_refusal(received_)) throw ProofError("it says: " + *text);
  if (challenged_) throw ProofError("bad proof: a second challenge");
  if (!send(proof_->answer(received_))) return false;
  challenged_ = true;
  received_.clear();
  count_ = 0;
  return expect(kHelloPrefixBytes), true;
}

bool Handshake::answer_hello() {
  std::span<const std::byte> said = received_;
  if (proof_) {
    said = said.first(said.size() - kTagBytes);
    proof_->check(said, std::span(received_).last(kTagBytes));
    proven_ = true;
  }
  const Hello theirs = decode_hello(said);
  const Hello mine = hello_of(*agent_, theirs.worker);
  check_hello(mine, {.group = mine.group, .world_size = mine.world_size, .worker = std::nullopt}, theirs);
  if (theirs.resumption.peer_incarnation != 0) return go_on(mine, theirs);
  if (const auto session = agent_->session(theirs.worker.id)) {
    if (session->incarnation() == theirs.incarnation || session->link()->gauges().connected) {
      throw UsageError("rank " + std::to_string(theirs.worker.id) + " is connected to worker '" + mine.worker.name +
                       "' already");
    }
    session->end(std::make_exception_ptr(PeerLostError(name_of(session->peer()) + " has been started anew", true)));
  }
  if (!say(mine)) return false;
  timer_.cancel();
  Reach reach;
  try {
    if (!theirs.resumption.endpoint.empty()) reach.endpoint = Agent::Endpoint::parse(theirs.resumption.endpoint);
  } catch (const UsageError&) {  // then it cannot be asked whether it lives
  }
  adopt_socket(*agent_, UniqueFd(stream_.release()), tcp_, mine, theirs, std::move(reach));
  return true;
}

/// The other side has lost the connection of a session, and goes on over this one.
bool Handshake::go_on(const Hello& first, const Hello& theirs) {
  const auto session = agent_->session(theirs.worker.id);
  const auto link = session ? std::dynamic_pointer_cast<SocketLink>(session->link()) : nullptr;
  if (theirs.resumption.peer_incarnation != agent_->incarnation || !link ||
      session->incarnation() != theirs.incarnation) {
    throw UsageError("the session with worker '" + agent_->self.name + "' that is to go on has ended");
  }
  link->disconnect();  // this side may not have noticed
  if (!link->can_resume()) throw UsageError("the session with worker '" + agent_->self.name + "' has ended");
  Hello mine = first;
  mine.resumption.peer_incarnation = theirs.incarnation;
  mine.resumption.received = link->frames_received();
  if (!say(mine)) return false;
  timer_.cancel();
  link->resume(UniqueFd(stream_.release()), theirs.resumption.received);
  return true;
}

void Handshake::refuse(const std::string& why) {
  others_->note(from_ + ": " + why);
  if (!stream_.is_open()) return;
  try {
    if (tcp_ && !proven_) {
      // A stranger: nothing that says more than that Tendril listens here.
      send(encode_proof_refusal(challenged_ ? "no proof of the key that is asked for here"
                                            : "no challenge of version 1"));
    } else {
      Hello refusal = hello_of(*agent_, {});
      refusal.refusal = why.substr(0, 1024);
      say(refusal);
    }
  } catch (const std::exception&) {  // then it is closed without a word
  }
  close();
}

bool Handshake::say(const Hello& hello) {
  Bytes bytes = encode(hello);
  if (proof_) {
    const Proof::Tag tag = proof_->seal(bytes);
    bytes.insert(bytes.end(), tag.begin(), tag.end());
  }
  return send(bytes);
}

/// An empty socket buffer takes it whole.
bool Handshake::send(const Bytes& bytes) {
  return ::send(stream_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace tendril::rpc::detail
