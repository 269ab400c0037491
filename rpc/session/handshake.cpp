#include "tendril/rpc/session/handshake.h"

#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/dial.h"
#include "tendril/rpc/session/group_events.h"
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
  hello.request_window = agent.receive_window();
  hello.devices = agent.devices_for(peer.name);
  if (const auto listener = agent.listening()) {
    hello.resumption.grace_ms = static_cast<uint32_t>(agent.options.grace_period.count());
    hello.resumption.endpoint = listener->endpoint().to_string();
  }
  return hello;
}

SharedKey key_of(const Agent::Impl& agent) { return agent.options.key ? agent.options.key : SharedKey::of_this_user(); }

void check_reachable(const Agent::Impl& agent, const std::string& what, const std::string& host, bool loopback) {
  TENDRIL_CHECK_AS(UsageError, loopback || agent.options.key || agent.options.tls, what, ": '", host,
                   "' is not a loopback address, and other hosts are refused without a shared key. ", kHowToMakeAKey);
}

SocketLinkOptions link_options(const Agent::Impl& agent, const Hello& mine, const Hello& theirs) {
  const uint32_t grace_ms = std::min(mine.resumption.grace_ms, theirs.resumption.grace_ms);
  return {.send_limits = theirs.limits,
          .receive_limits = agent.options.limits,
          .send_window = theirs.request_window,
          .receive_window = agent.receive_window(),
          .max_queued_bytes = agent.options.send_limit,
          .stall_timeout = agent.options.liveness_timeout,
          .terms = {.self = agent.self.id,
                    .peer = theirs.worker.id,
                    .incarnation = agent.incarnation,
                    .peer_incarnation = theirs.incarnation,
                    .grace = std::chrono::milliseconds(grace_ms),
                    .first_connection = std::max<std::chrono::milliseconds>(ConnectionState::Terms{}.first_connection,
                                                                            agent.options.liveness_timeout)}};
}

void adopt_connection(Agent::Impl& agent, std::unique_ptr<Stream> connection, const Hello& mine, const Hello& theirs,
                      Reach reach, bool dialled) {
  SocketLinkOptions options = link_options(agent, mine, theirs);
  options.dialled = dialled;
  auto link = std::make_shared<SocketLink>(agent.loop, std::move(connection), options);
  agent.add_peer(theirs.worker, theirs.incarnation, std::move(link), theirs.devices, std::move(reach));
}

ConnectionState::Hello said_of_session(const Hello& hello) {
  const Resumption& said = hello.resumption;
  return {hello.incarnation, said.peer_incarnation, said.received, said.attempt, said.taken, said.session};
}

Handshake::Others::Others(const Agent::Impl& agent)
    : worker(agent.self.name),
      // All workers of a group come to rank 0 at once.
      half_open(max_half_open() + static_cast<std::size_t>(agent.options.world_size)) {}

void Handshake::Others::note(const std::string& text) {
  if (const auto line = notes.add(text, Clock::now()))
    log(LogLevel::warn, worker, "rpc: worker '" + worker + "' refused a connection from " + *line);
}

Handshake::Handshake(std::shared_ptr<Agent::Impl> agent, std::unique_ptr<Stream> stream, bool tcp, std::string from,
                     std::shared_ptr<Others> others)
    : agent_(std::move(agent)),
      stream_(agent_->loop->reactor()),
      timer_(agent_->loop->reactor()),
      tcp_(tcp),
      from_(std::move(from)),
      others_(std::move(others)) {
  stream_.open(std::move(stream));
}

Handshake::~Handshake() { others_->half_open.remove(this); }

void Handshake::start() try {
  others_->half_open.add(shared_from_this(), Clock::now());
  timer_.call_after(kHandshakeTimeout, [self = shared_from_this()] {
    self->others_->note(self->from_ + ": it did not introduce itself within 5 s");
    self->close();
  });
  if (tcp_ && agent_->options.tls) {
    return stream_.secure(agent_->options.tls, TlsStream::Side::acceptor,
                          [self = shared_from_this()](const std::exception_ptr& error) {
                            if (error) return self->received(error);
                            self->proven_ = true;
                            self->expect(kHelloPrefixBytes);
                          });
  }
  if (tcp_) proof_.emplace(key_of(*agent_), Proof::Role::acceptor);
  expect(tcp_ ? kProofPrefixBytes : kHelloPrefixBytes);
} catch (const std::exception& e) {  // no key
  refuse(e.what());
}

void Handshake::close() {
  timer_.cancel();
  stream_.close();
}

/// So many bytes altogether of the message that has begun.
void Handshake::expect(std::size_t bytes) {
  const std::size_t have = received_.size();
  received_.resize(bytes);
  stream_.read(std::span(received_).subspan(have),
               [self = shared_from_this()](const std::exception_ptr& error) { self->received(error); });
}

void Handshake::received(const std::exception_ptr& error) try {
  if (error) std::rethrow_exception(error);
  if (!advance()) close();
} catch (const ConnectionClosed&) {
  close();
} catch (const ConnectionFailed&) {
  close();
} catch (const std::exception& e) {
  if (agent_->is_shut_down()) return close();  // as if nobody listened any more: the next group may meet here soon
  refuse(e.what());
}

/// All bytes have come that were expected. False: the connection is of no use.
bool Handshake::advance() {
  const bool proof = proof_ && (!challenged_ || is_proof(received_));
  const std::size_t size = proof ? proof_size(received_).value_or(kProofPrefixBytes)
                                 : hello_size(received_).value_or(kHelloPrefixBytes) + (proof_ ? kTagBytes : 0);
  if (size > received_.size()) return expect(size), true;
  return proof ? answer_challenge() : answer_hello();
}

bool Handshake::answer_challenge() {
  if (const auto text = proof_refusal(received_)) throw ProofError("it says: " + *text);
  if (challenged_) throw ProofError("bad proof: a second challenge");
  if (!stream_.send(proof_->answer(received_))) return false;
  challenged_ = true;
  received_.clear();
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
  if (theirs.enquiry) return answer_enquiry(theirs);
  const Hello mine = hello_of(*agent_, theirs.worker);
  check_hello(mine, {.group = mine.group, .world_size = mine.world_size, .worker = std::nullopt}, theirs);
  if (theirs.resumption.peer_incarnation != 0) return go_on(mine, theirs);
  if (const auto events = agent_->group_events()) {
    if (refuse_by_group(*events, theirs)) return true;
  }
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
  adopt_connection(*agent_, stream_.release(), mine, theirs, std::move(reach), false);
  return true;
}

/// Somebody asks whether it may join the group that meets here.
bool Handshake::answer_enquiry(const Hello& theirs) {
  const Hello mine = hello_of(*agent_, theirs.worker);
  agree_on_version(mine, theirs);
  const auto events = agent_->group_events();
  if (!events) throw UsageError("no group meets here");
  if (refuse_by_group(*events, theirs)) return true;
  say(mine);
  return false;
}

/// The other side goes on over this connection with a session that has lost its own, or has had none so far.
/// False: this connection is none that counts; the other side finds the session connected, or comes again.
bool Handshake::go_on(const Hello& first, const Hello& theirs) {
  const auto session = agent_->session(theirs.worker.id);
  const auto link = session ? std::dynamic_pointer_cast<SocketLink>(session->link()) : nullptr;
  const ConnectionState::Hello said = said_of_session(theirs);
  auto decision = ConnectionState::Accept::refuse;
  if (link && session->incarnation() == theirs.incarnation) {
    decision = link->state().accept(said, link->frames_known_received(), link->has_started());
  } else {
    // The other side may be ahead of this worker: rank 0 introduced this worker to a new member before it announced
    // that member here, or the next session with a peer that was lost has not begun here yet.
    const bool may_be_new = agent_->group_events() && said.peer_incarnation == agent_->incarnation &&
                            (!session || session->incarnation() != theirs.incarnation) &&
                            !agent_->ended_sessions(theirs.worker.id, theirs.incarnation).for_good;
    decision = ConnectionState::accept_unknown(!session && agent_->expects_members(), may_be_new);
  }
  if (decision == ConnectionState::Accept::refuse) {
    const std::string why = "the session with worker '" + agent_->self.name + "' has ended";
    if (!link || session->incarnation() != theirs.incarnation) throw UsageError(why);
    return say_refusal(why, RefusalKind::ended, link->state().session()), true;
  }
  if (decision == ConnectionState::Accept::newer) {  // the other side comes again, and finds the next session
    const std::string why = name_of(session->peer()) + " has lost its session with this worker and begun another";
    session->end(std::make_exception_ptr(PeerLostError(why, true)), {.may_return = true, .next = said.session});
    return false;
  }
  // The peer may have timed out while its hello waited here.
  if (decision == ConnectionState::Accept::ignore || stream_.other_side_has_gone()) return false;
  const auto dial = agent_->dial_of(*session);
  link->state().take(said);
  link->disconnect("the peer has opened another");  // this side may not have noticed
  if (!link->can_resume()) throw UsageError("the session with worker '" + agent_->self.name + "' has ended");
  Hello mine = first;
  mine.resumption.peer_incarnation = theirs.incarnation;
  mine.resumption.received = link->frames_received();
  mine.resumption.session = link->state().session();
  if (!say(mine)) return false;
  timer_.cancel();
  link->state().took();
  if (dial) dial->cancel();
  link->resume(stream_.release(), theirs.resumption.received);
  return true;
}

/// Why this worker cannot have a session, or join.
bool Handshake::refuse_by_group(GroupEvents& events, const Hello& theirs) {
  std::optional<GroupEvents::Refusal> refusal;
  const bool in_range = theirs.worker.id >= 0 && theirs.worker.id < agent_->options.world_size;
  const auto session = in_range ? agent_->session(theirs.worker.id) : nullptr;
  if ((in_range && agent_->is_ending(theirs.worker.id)) ||
      (session && session->link() && !session->link()->gauges().connected && session->link()->gauges().begun)) {
    refusal = {.kind = RefusalKind::try_later,
               .text = "rank " + std::to_string(theirs.worker.id) + " has lost its connection and may come back"};
  } else {
    refusal = events.asked(theirs);
  }
  if (!refusal) return false;
  if (refusal->kind == RefusalKind::usage) others_->note(from_ + ": " + refusal->text);
  say_refusal(refusal->text, refusal->kind);
  return true;
}

void Handshake::refuse(const std::string& why) {
  others_->note(from_ + ": " + why);
  if (const auto events = agent_->group_events()) events->refused("a connection from " + from_ + ": " + why);
  say_refusal(why, RefusalKind::usage);
}

void Handshake::say_refusal(const std::string& why, RefusalKind kind, uint32_t next_session) {
  if (!stream_.is_open()) return;
  try {
    if (!tcp_ || proven_) {
      Hello refusal = hello_of(*agent_, {});
      refusal.refusal = why.substr(0, 1024);
      refusal.refusal_kind = kind;
      refusal.resumption.session = next_session;
      say(refusal);
    } else if (!stream_.is_secured()) {  // else OpenSSL has said it
      // A stranger: nothing that says more than that Tendril listens here.
      stream_.send(encode_proof_refusal(agent_->options.tls ? "TLS is spoken here, with certificates in place of a key"
                                        : challenged_       ? "no proof of the key that is asked for here"
                                                            : "no challenge of version 1"));
    }
  } catch (const std::exception&) {  // then it is closed without a word
  }
  stream_.close_after_last_word();
  close();
}

bool Handshake::say(const Hello& hello) {
  Bytes bytes = encode(hello);
  if (proof_) {
    const Proof::Tag tag = proof_->seal(bytes);
    bytes.insert(bytes.end(), tag.begin(), tag.end());
  }
  return stream_.send(bytes);
}

}  // namespace tendril::rpc::detail
