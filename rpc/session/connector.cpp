#include "tendril/rpc/session/connector.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/introduction.h"
#include "tendril/rpc/transport/socket_link.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kLongestPause{100};

Dial::Addresses addresses_of(const Agent::Endpoint& endpoint) {
  Dial::Addresses addresses{.unix_path = endpoint.unix_path};
  if (endpoint.tcp_port == 0) return addresses;
  boost::system::error_code bad;
  const auto number = asio::ip::make_address(endpoint.tcp_host, bad);
  if (bad) {
    addresses.unusable = "tcp: '" + endpoint.tcp_host + "' is not an address";  // resolving a name would block
  } else {
    addresses.tcp.emplace(number, endpoint.tcp_port);
  }
  return addresses;
}

}  // namespace

Connector::Connector(const std::shared_ptr<Agent::Impl>& agent, WorkerInfo peer, Agent::Endpoint endpoint,
                     Clock::time_point deadline, Done done)
    : agent_(agent),
      peer_(std::move(peer)),
      endpoint_(std::move(endpoint)),
      deadline_(deadline),
      done_(std::move(done)),
      timer_(agent->loop->reactor()) {}

Connector::Connector(const std::shared_ptr<Agent::Impl>& agent, std::shared_ptr<Session> session)
    : agent_(agent),
      peer_(session->peer()),
      endpoint_(session->reach().endpoint),
      deadline_(Clock::time_point::max()),  // the session's ConnectionState has one
      session_(std::move(session)),
      link_(std::dynamic_pointer_cast<SocketLink>(session_->link())),
      timer_(agent->loop->reactor()) {
  state().begin_dial(Clock::now());
}

ConnectionState& Connector::state() const { return link_->state(); }

std::string Connector::describe() const {
  return "connect to worker '" + peer_.name + "' (rank " + std::to_string(peer_.id) + ")";
}

void Connector::start() {
  if (over_) return;
  const auto agent = agent_.lock();
  if (!agent || agent->is_shut_down()) return cancel();
  Clock::time_point end = deadline_;
  if (session_) {
    const auto attempt_ends = state().try_dial(Clock::now());
    if (session_->ended() || !attempt_ends) return;
    end = *attempt_ends;
  }
  if (end != Clock::time_point::max()) wait_until(end, &Connector::attempt_timed_out);
  const auto self = shared_from_this();
  const auto dial = std::make_shared<Dial>(
      agent->loop->reactor(), addresses_of(endpoint_),
      Dial::Owner{.on_connected = [self] { return !self->session_ || self->state().should_introduce(Clock::now()); },
                  .security = [self] { return self->agent()->security(); },
                  .introduce = [self] { return self->introduce(); },
                  .done = [self](Dial::Outcome&& outcome) { self->ended(std::move(outcome)); }});
  dial_ = dial;
  dial->start();
}

void Connector::cancel() {
  if (session_) return finish(nullptr);  // the session ends with the agent
  finish(std::make_exception_ptr(UsageError(describe() + ": this worker has been shut down")));
}

void Connector::wait_until(Clock::time_point when, void (Connector::*then)()) {
  timer_.call_at(when, [self = shared_from_this(), then] { ((*self).*then)(); });
}

void Connector::attempt_timed_out() {
  if (session_) return retry("no answer");
  const auto dial = dial_.lock();
  finish(std::make_exception_ptr(
      TimeoutError(describe() + ": no answer in time while " + (dial ? dial->phase() : "connecting"))));
}

std::shared_ptr<Agent::Impl> Connector::agent() const {
  auto alive = agent_.lock();
  if (!alive) throw UsageError(describe() + ": this worker has been shut down");
  return alive;
}

Hello Connector::introduce() {
  mine_ = hello_of(*agent(), peer_);
  if (session_) {
    const ConnectionState::Hello said = state().say_hello(link_->frames_received());
    mine_.resumption.peer_incarnation = said.peer_incarnation;
    mine_.resumption.received = said.received;
    mine_.resumption.attempt = said.attempt;
    mine_.resumption.taken = said.taken;
    mine_.resumption.session = said.session;
  }
  return mine_;
}

void Connector::ended(Dial::Outcome&& outcome) try {
  dial_.reset();
  if (auto* const answer = std::get_if<Dial::Answered>(&outcome)) return answered(std::move(*answer));
  if (const auto* const failure = std::get_if<Dial::Failed>(&outcome)) return failed(*failure);
  if (const auto* const how = std::get_if<Dial::Unreached>(&outcome)) return unreached(*how);
  retry(std::get<Dial::Interrupted>(outcome).why);
} catch (...) {  // the answer of an authenticated peer is invalid
  finish(std::current_exception());
}

void Connector::unreached(const Dial::Unreached& how) {
  if (!session_) {
    return finish(std::make_exception_ptr(
        PeerLostError(describe() + ": no connection to " + endpoint_.to_string() + " (" + how.why + ")", false)));
  }
  if (!how.no_listener) return retry(how.why);
  finish(std::make_exception_ptr(PeerLostError(
      state().begun() ? "its process has ended" : "no process listens there: it has left, or its process has ended",
      true)));
}

void Connector::answered(Dial::Answered answer) {
  const auto agent = agent_.lock();
  if (!agent) return finish(nullptr);
  const Hello& theirs = answer.hello;
  if (session_ && theirs.worker != peer_) return retry("another worker listens there, '" + theirs.worker.name + "'");
  if (theirs.refusal_kind == RefusalKind::try_later) return retry(theirs.refusal);
  if (theirs.refusal_kind == RefusalKind::ended && session_) {
    if (state().adopt_peer_session(theirs.resumption.session)) return retry(theirs.refusal);
    return finish(std::make_exception_ptr(UsageError(theirs.refusal)), theirs.resumption.session);
  }
  if (theirs.refusal_kind == RefusalKind::timeout) throw TimeoutError(theirs.refusal);
  if (theirs.refusal_kind == RefusalKind::lost) throw PeerLostError(theirs.refusal, false);
  check_hello(mine_, {.group = mine_.group, .world_size = mine_.world_size, .worker = peer_}, theirs);
  const bool plain = mine_.plain && theirs.plain;
  if (!session_) {
    adopt_connection(*agent, answer.stream.release(plain), mine_, theirs, {.endpoint = endpoint_}, true);
    return finish(nullptr);
  }
  switch (state().answered(session_part_of(theirs), link_->frames_received())) {
    case ConnectionState::Answer::restarted:
      session_->end(std::make_exception_ptr(PeerLostError(name_of(peer_) + " was restarted", state().begun())));
      return finish(nullptr);
    case ConnectionState::Answer::not_needed:
      return finish(nullptr);
    case ConnectionState::Answer::stale:
      return retry("the hello of this worker was outdated");
    case ConnectionState::Answer::resume:
      break;
  }
  std::unique_ptr<Stream> connection = answer.stream.release(plain);
  finish(nullptr);
  link_->resume(std::move(connection), theirs.resumption.received);
}

/// Only the peer itself may end a session: while it cannot be reached, another process may have its port.
void Connector::failed(const Dial::Failed& failure) {
  if (session_ && !failure.authenticated)
    return retry("the process that listens there is not the peer: " + text_of(failure.error));
  try {
    std::rethrow_exception(failure.error);
  } catch (const AuthenticationError& e) {
    finish(std::make_exception_ptr(AuthenticationError(describe() + ": " + e.what())));
  } catch (...) {
    finish(failure.error);
  }
}

void Connector::retry(const std::string& why) {
  if (const auto dial = std::exchange(dial_, {}).lock()) dial->cancel();
  if (session_) {
    if (const auto again = state().retry(Clock::now())) return wait_until(*again, &Connector::start);
    return finish(std::make_exception_ptr(PeerLostError("no connection was made in time: " + why, false)));
  }
  const Clock::time_point next = Clock::now() + pause_;
  if (next >= deadline_) {
    return finish(std::make_exception_ptr(TimeoutError(describe() + ": no connection until the deadline: " + why)));
  }
  pause_ = std::min(2 * pause_, kLongestPause);
  wait_until(next, &Connector::start);
}

void Connector::finish(const std::exception_ptr& error, uint32_t next_session) {
  over_ = true;
  if (session_) state().end_dial();
  timer_.cancel();
  if (const auto dial = std::exchange(dial_, {}).lock()) dial->cancel();
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
  if (const Done done = std::exchange(done_, nullptr)) done(error);
}

}  // namespace tendril::rpc::detail
