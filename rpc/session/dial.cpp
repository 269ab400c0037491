#include "tendril/rpc/session/dial.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/handshake.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kLongestPause{100};

}  // namespace

Dial::Dial(const std::shared_ptr<Agent::Impl>& agent, WorkerInfo peer, Agent::Endpoint endpoint,
           Clock::time_point deadline, Done done)
    : agent_(agent),
      peer_(std::move(peer)),
      endpoint_(std::move(endpoint)),
      deadline_(deadline),
      done_(std::move(done)),
      stream_(agent->loop->reactor()),
      timer_(agent->loop->reactor()) {}

Dial::Dial(const std::shared_ptr<Agent::Impl>& agent, std::shared_ptr<Session> session)
    : agent_(agent),
      peer_(session->peer()),
      endpoint_(session->reach().endpoint),
      deadline_(Clock::time_point::max()),  // its ConnectionState's affair
      session_(std::move(session)),
      link_(std::dynamic_pointer_cast<SocketLink>(session_->link())),
      stream_(agent->loop->reactor()),
      timer_(agent->loop->reactor()) {
  state().begin_dial(Clock::now());
}

ConnectionState& Dial::state() const { return link_->state(); }

std::string Dial::describe() const {
  return "connect to worker '" + peer_.name + "' (rank " + std::to_string(peer_.id) + ")";
}

void Dial::start() {
  if (over_) return;
  const auto agent = agent_.lock();
  if (!agent || agent->is_shut_down()) return cancel();
  Clock::time_point end = deadline_;
  if (session_) {
    const auto attempt_ends = state().try_dial(Clock::now());
    if (session_->ended() || !attempt_ends) return;
    end = *attempt_ends;
  }
  ++attempt_;
  said_hello_ = false;
  next_address_ = 0;
  unreached_.clear();
  nobody_ = true;
  if (end != Clock::time_point::max()) wait_until(end, &Dial::attempt_timed_out);
  try_next_address();
}

void Dial::cancel() {
  if (session_) return finish(nullptr);  // it ends with the agent
  finish(std::make_exception_ptr(UsageError(describe() + ": this worker has been shut down")));
}

void Dial::wait_until(Clock::time_point when, void (Dial::*then)()) {
  timer_.call_at(when, [self = shared_from_this(), then] { ((*self).*then)(); });
}

void Dial::attempt_timed_out() {
  if (session_) return retry("no answer");
  finish(std::make_exception_ptr(TimeoutError(describe() + ": no answer in time while " + phase_)));
}

/// The Unix-domain socket first, then TCP.
void Dial::try_next_address() try {
  phase_ = "connecting";
  const int address = next_address_++;
  if (address == 0 && !endpoint_.unix_path.empty()) {
    tcp_ = false;
    Network::Begun begun = network().connect_unix(endpoint_.unix_path);
    if (begun.error != 0) return not_reached(begun.error);
    if (!begun.stream->peer_is_same_user()) return not_reached(EPERM);
    stream_.open(std::move(begun.stream));
    return connected();
  }
  if (address <= 1 && endpoint_.tcp_port != 0) {
    next_address_ = 2;
    tcp_ = true;
    boost::system::error_code bad;
    const auto number = asio::ip::make_address(endpoint_.tcp_host, bad);
    if (bad) return not_reached(EDESTADDRREQ);  // a name, whose resolution would block
    Network::Begun begun = network().connect_tcp({number, endpoint_.tcp_port});
    if (!begun.stream) return not_reached(begun.error);
    return connecting(std::move(begun.stream));
  }
  std::string why;
  for (const std::string& one : unreached_) why += (why.empty() ? "" : ", ") + one;
  if (!session_) {
    return finish(std::make_exception_ptr(
        PeerLostError(describe() + ": nobody at " + endpoint_.to_string() + " (" + why + ")", false)));
  }
  if (!nobody_) return retry(why);
  finish(std::make_exception_ptr(PeerLostError(
      state().begun() ? "its process has ended" : "nobody listens there: it has left, or its process has ended",
      true)));
} catch (...) {
  finish(std::current_exception());
}

void Dial::connecting(std::unique_ptr<Stream> stream) {
  stream_.open(std::move(stream));
  stream_.wait_connected([self = shared_from_this(), attempt = attempt_](const std::exception_ptr& error) {
    if (attempt != self->attempt_) return;
    try {
      if (error) std::rethrow_exception(error);
    } catch (const ConnectionFailed& e) {
      return self->not_reached(e.code().value());
    }
    self->connected();
  });
}

void Dial::not_reached(int error) {
  stream_.close();
  // The peer is there, or this process has no descriptor left: both may change.
  if (error == EAGAIN) return retry("its queue of connections is full");
  if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) return retry(std::strerror(error));
  unreached_.push_back(std::string(tcp_ ? "tcp: " : "unix: ") +
                       (error == EPERM && !tcp_ ? "it belongs to another user" : std::strerror(error)));
  nobody_ = nobody_ && (error == ECONNREFUSED || error == ENOENT);
  try_next_address();
}

void Dial::connected() {
  if (session_ && !state().should_introduce(Clock::now())) return retry("it will connect");
  const auto agent = agent_.lock();
  if (!agent) return finish(nullptr);
  phase_ = "waiting for it to introduce itself";
  said_hello_ = false;
  proven_ = !tcp_;
  proof_.reset();
  try {
    if (!tcp_) return introduce(*agent);
    if (agent->options.tls) {
      return stream_.secure(agent->options.tls, TlsStream::Side::dialler, next(&Dial::secured));
    }
    proof_.emplace(key_of(*agent), Proof::Role::dialler);
    send(proof_->challenge());
    expect(kProofPrefixBytes);
  } catch (...) {
    failed();
  }
}

void Dial::secured() {
  proven_ = true;
  if (const auto agent = agent_.lock()) introduce(*agent);
}

void Dial::introduce(Agent::Impl& agent) {
  mine_ = hello_of(agent, peer_);
  if (session_) {
    const ConnectionState::Hello said = state().say_hello(link_->frames_received());
    mine_.resumption.peer_incarnation = said.peer_incarnation;
    mine_.resumption.received = said.received;
    mine_.resumption.attempt = said.attempt;
    mine_.resumption.taken = said.taken;
    mine_.resumption.session = said.session;
  }
  Bytes said = encode(mine_);
  if (proof_) {
    const Proof::Tag tag = proof_->seal(said);
    said.insert(said.end(), tag.begin(), tag.end());
  }
  said_hello_ = true;
  send(said);
  expect(kHelloPrefixBytes);
}

/// Where it cannot be said, the answer does not come either, but perhaps why.
void Dial::send(const Bytes& bytes) { (void)stream_.send(bytes); }

/// Another message: exactly its bytes, for what follows the last one belongs to the link.
void Dial::expect(std::size_t bytes) {
  answer_.assign(bytes, std::byte{0});
  read_rest(0);
}

void Dial::read_rest(std::size_t have) { stream_.read(std::span(answer_).subspan(have), next(&Dial::advance)); }

/// What to do next, unless that fails which is begun now, or the attempt is over before.
HandshakeStream::Done Dial::next(void (Dial::*step)()) {
  return [self = shared_from_this(), attempt = attempt_, step](const std::exception_ptr& error) {
    if (attempt != self->attempt_) return;
    try {
      if (error) self->raise(error);
      ((*self).*step)();
    } catch (const ConnectionClosed&) {
      self->retry("it closed the connection without introducing itself");
    } catch (const ConnectionFailed& e) {
      self->retry(e.code().message());
    } catch (...) {
      self->failed();
    }
  };
}

void Dial::raise(const std::exception_ptr& error) const try {
  std::rethrow_exception(error);
} catch (const ProofError& e) {
  throw ProofError(describe() + ": " + e.what());
}

/// All bytes have come that were expected.
void Dial::advance() {
  const bool proof = proof_ && (!said_hello_ || is_proof(answer_));
  const std::size_t size = proof ? proof_size(answer_).value_or(kProofPrefixBytes)
                                 : hello_size(answer_).value_or(kHelloPrefixBytes) + (proof_ ? kTagBytes : 0);
  if (size > answer_.size()) {
    const std::size_t have = answer_.size();
    answer_.resize(size);
    return read_rest(have);
  }
  if (!proof) return answered();
  if (said_hello_) {
    throw ProofError(describe() + ": it refused the connection: " + proof_refusal(answer_).value_or("no reason given"));
  }
  try {
    proof_->check_answer(answer_);
  } catch (const ProofError& e) {
    if (!proof_refusal(answer_)) send(encode_proof_refusal("the keys differ"));
    throw ProofError(describe() + ": " + e.what());
  }
  if (const auto agent = agent_.lock()) introduce(*agent);
}

void Dial::answered() {
  const auto agent = agent_.lock();
  if (!agent) return finish(nullptr);
  std::span<const std::byte> said = answer_;
  if (proof_) {
    said = said.first(said.size() - kTagBytes);
    proof_->check(said, std::span(answer_).last(kTagBytes));
    proven_ = true;
  }
  const Hello theirs = decode_hello(said);
  if (theirs.refusal_kind == RefusalKind::try_later) return retry(theirs.refusal);
  if (theirs.refusal_kind == RefusalKind::ended && session_) {
    if (state().ended_there(theirs.resumption.session)) return retry(theirs.refusal);
    return finish(std::make_exception_ptr(UsageError(theirs.refusal)), theirs.resumption.session);
  }
  if (theirs.refusal_kind == RefusalKind::timeout) throw TimeoutError(theirs.refusal);
  if (theirs.refusal_kind == RefusalKind::lost) throw PeerLostError(theirs.refusal, false);
  check_hello(mine_, {.group = mine_.group, .world_size = mine_.world_size, .worker = peer_}, theirs);
  if (!session_) {
    adopt_connection(*agent, stream_.release(), mine_, theirs, {.endpoint = endpoint_}, true);
    return finish(nullptr);
  }
  switch (state().answered(said_of_session(theirs), link_->frames_received())) {
    case ConnectionState::Answer::started_anew:
      session_->end(std::make_exception_ptr(PeerLostError(name_of(peer_) + " has been started anew", state().begun())));
      return finish(nullptr);
    case ConnectionState::Answer::not_needed:
      return finish(nullptr);
    case ConnectionState::Answer::stale:
      return retry("it was told what is not so any more");
    case ConnectionState::Answer::resume:
      break;
  }
  std::unique_ptr<Stream> connection = stream_.release();
  finish(nullptr);
  link_->resume(std::move(connection), theirs.resumption.received);
}

/// In a handler: what the other side has said is an error. A session is ended by its peer alone: somebody else may have
/// the port of one that cannot be reached at present.
void Dial::failed() {
  if (!session_ || proven_) return finish(std::current_exception());
  retry("whoever listens there is not the peer");
}

void Dial::retry(const std::string& why) {
  ++attempt_;  // what is still to come of this one is of no interest
  said_hello_ = false;
  stream_.close();
  if (session_) {
    if (const auto again = state().retry(Clock::now())) return wait_until(*again, &Dial::start);
    return finish(std::make_exception_ptr(PeerLostError("no connection came about in time: " + why, false)));
  }
  const Clock::time_point next = Clock::now() + pause_;
  if (next >= deadline_) {
    return finish(std::make_exception_ptr(TimeoutError(describe() + ": it was too busy until the deadline: " + why)));
  }
  pause_ = std::min(2 * pause_, kLongestPause);
  wait_until(next, &Dial::start);
}

void Dial::finish(const std::exception_ptr& error, uint32_t next_session) {
  ++attempt_;
  over_ = true;
  if (session_) state().end_dial();
  timer_.cancel();
  stream_.close();
  if (session_ && error) {
    std::string why;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      why = e.what();
    }
    session_->end(
        std::make_exception_ptr(state().begun() ? PeerLostError(name_of(peer_) + ": connection lost: " + why, true)
                                                : PeerLostError(name_of(peer_) + " cannot be reached: " + why, false)),
        {.may_return = true, .next = next_session});
  }
  if (const Done done = std::move(done_)) done(error);
}

}  // namespace tendril::rpc::detail
