// The parts of a session that both halves share: receiving messages, detecting silence, and ending.
#include "tendril/rpc/session/session.h"

#include <algorithm>
#include <sstream>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/transport/flow_control.h"
#include "tendril/rpc/wire/control.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

namespace {

std::string seconds(Clock::duration time) {
  std::ostringstream text;
  text << std::chrono::duration<double>(time).count() << " s";
  return text.str();
}

/// Estimates the memory that control records account for: as much for each record as for a request.
std::size_t memory_of(const Bytes& control) {
  constexpr std::size_t kRecordBytes = 64;
  return control.size() / kRecordBytes * kRequestOverhead;
}

}  // namespace

Session::Session(std::shared_ptr<Agent::Impl> agent, WorkerInfo peer, uint64_t incarnation, std::shared_ptr<Link> link,
                 DeviceRoutes routes, Reach reach)
    : agent_(std::move(agent)),
      peer_(std::move(peer)),
      incarnation_(incarnation),
      link_(std::move(link)),
      routes_(std::move(routes)),
      lender_(link_ && routes_.lend()
                  ? std::make_shared<Lender>(link_, agent_->self.name, name_of(peer_), agent_->counters)
                  : nullptr),
      borrower_(lender_ ? std::make_shared<Borrower>(agent_->loop, link_, agent_->counters) : nullptr),
      reach_(std::move(reach)) {}

void Session::received(Link&, Message&& message, Clock::time_point when) {
  const IoCallbackScope io_callback;  // also if a link without a loop delivers
  if (!message.lent.empty()) [[unlikely]] {
    TENDRIL_CHECK_AS(MessageError, borrower_, "bad frame: a tensor is lent to a worker that does not borrow");
    borrower_->received(message);
  }
  switch (message.kind) {
    case MessageKind::request:
      return request_received(std::move(message), when);
    case MessageKind::reply:
    case MessageKind::error:
      return reply_received(std::move(message), when);
    case MessageKind::cancel:
      return served_.cancel(message.call_id);
    case MessageKind::control:
      if (agent_->listener) {
        agent_->note_load(memory_of(message.payload));
        agent_->listener->control_received(peer_, std::move(message.payload));
        agent_->arm_listener_timer();
      }
      return;
    case MessageKind::group:
      return group_received(std::move(message.payload));
    case MessageKind::lending:
      return lending_received(message.payload);
    case MessageKind::ping: {
      Message pong;
      pong.kind = MessageKind::pong;
      say(std::move(pong));
      return;
    }
    case MessageKind::pong:
      return;  // its arrival is the sign of life
    case MessageKind::credit:
    case MessageKind::acknowledge:
      return;  // handled by the link
    case MessageKind::goodbye:
      said_goodbye_ = true;
      return;
  }
}

void Session::lending_received(const Bytes& payload) {
  TENDRIL_CHECK_AS(MessageError, lender_, "bad lending message: this worker neither lends nor borrows");
  const LendingMessage said = decode_lending(payload);
  if (const auto* const offer = std::get_if<LendingOffer>(&said)) return borrower_->offered(*offer);
  if (const auto* const answer = std::get_if<LendingAnswer>(&said)) return lender_->answered(*answer);
  lender_->returned(std::get<LendingReturn>(said));
}

/// Such messages need no credit and are not refused. If even they cannot be sent, the connection is useless.
bool Session::say(Message&& message) noexcept try { return link_->send(std::move(message)); } catch (...) {
  link_->close();
  return false;
}

bool Session::send_control(Bytes payload) {
  if (is_self()) {
    if (agent_->listener) agent_->listener->control_received(peer_, std::move(payload));
    return true;
  }
  agent_->note_load(memory_of(payload));
  agent_->arm_listener_timer();  // the listener may have to send the message again
  bool sent = true;
  for (Bytes& part : split_control(std::move(payload), link_->peer_limits().max_payload_bytes)) {
    Message message;
    message.kind = MessageKind::control;
    message.payload = std::move(part);
    sent = say(std::move(message)) && sent;
  }
  return sent;
}

Clock::time_point Session::sweep(Clock::time_point now) {
  CallsMade::Overdue overdue = made_.take_overdue(now);
  const Clock::time_point next = overdue.next;
  const bool waiting = !is_self() && (overdue.others || awaits());
  fail_overdue(std::move(overdue));
  return waiting && ping(now) ? std::min(next, now + agent_->options.ping_interval) : next;
}

/// Whether the peer is expected to do something other than reply to a call.
bool Session::awaits() const {
  if (link_->gauges().queued_bytes > 0) return true;
  // A message that is parked here may wait for an owner that owes no reply.
  if (agent_->listener && agent_->listener->awaits(peer_)) return true;
  const auto events = agent_->group_events();
  return events && events->awaits(peer_);
}

/// Pings a silent peer that owes a reply or does not read messages. The peer is lost after unanswered pings, not after
/// silence alone, because this process may itself have been suspended. Returns true if it must be called again.
bool Session::ping(Clock::time_point now) {
  const auto interval = agent_->options.ping_interval;
  if (interval.count() == 0) return false;
  const Link::Gauges gauges = link_->gauges();
  if (!gauges.connected) return true;  // the link limits its wait for a connection
  const Clock::time_point heard = std::min(gauges.last_received, now);
  const auto silent = now - heard;
  // Any message since the last ping answers it, even if it arrived a whole interval ago.
  if (heard > last_ping_) unanswered_pings_ = 0;
  if (silent < interval) return true;
  if (now - last_ping_ < interval) return true;
  const auto limit = agent_->options.liveness_timeout;
  if (limit.count() > 0) {
    const auto asked = (unanswered_pings_ + 1) * interval;
    const auto lost = [&](const std::string& who, Clock::duration after) {
      return std::make_exception_ptr(PeerLostError(who + " has given no sign of life for " + seconds(after), true));
    };
    if (asked > limit) {
      end(lost(name_of(peer_), silent), {.may_return = true});
      return false;
    }
    // A router or firewall may have dropped the connection. The rest of the time is for replacing it.
    const auto left = (limit / interval - unanswered_pings_) * interval;
    if (unanswered_pings_ >= 2 && 2 * asked > limit && link_->replace_connection(now + left, lost("it", silent + left)))
      return true;
  }
  ++unanswered_pings_;
  last_ping_ = now;
  Message message;
  message.kind = MessageKind::ping;
  return say(std::move(message));
}

void Session::end(const std::exception_ptr& error, const Ending& how) {
  std::optional<CallTable<CallMade>> pending = made_.end();
  if (!pending) return;
  if (link_) link_->close();
  if (lender_) lender_->end();
  if (borrower_) borrower_->end();
  agent_->session_ended(shared_from_this(), how);
  for (auto& request : served_.end()) agent_->loop->post(std::move(request));  // they find that they are cancelled
  pending->for_each([&](uint64_t, CallMade& call) { fail_as_lost(std::move(call), error); });
  if (is_self()) return;
  const struct Last {  // at the end of this function, the next session with the peer may begin
    Session& session;
    ~Last() { session.leave_listener_scope(); }
  } last{*this};
  if (logs(LogLevel::info)) {
    const std::string& self = agent_->self.name;
    log(LogLevel::info, self, "rpc: worker '" + self + "' has lost " + name_of(peer_) + ": " + text_of(error));
  }
  if (const std::weak_ptr<GroupEvents> told = agent_->group_events(); !told.expired()) {
    agent_->loop->post_io([told, loss = GroupEvents::Loss{.peer = peer_,
                                                          .incarnation = incarnation_,
                                                          .cut_off = how.may_return && link_->gauges().begun,
                                                          .why = text_of(error)}] {
      if (const auto events = told.lock()) events->lost(loss);
    });
  }
  for (const auto& hook : agent_->hooks) hook->peer_lost(peer_, error);
  if (agent_->listener) {
    agent_->listener->peer_lost(peer_, error);
    agent_->arm_listener_timer();
  }
}

Session::ListenerScope::ListenerScope(Session& session) noexcept : session_(&session) {
  uint32_t tellers = session.open_scopes_.load(std::memory_order_relaxed);
  do {
    if (tellers == 0) {
      session_ = nullptr;
      return;
    }
  } while (!session.open_scopes_.compare_exchange_weak(tellers, tellers + 1, std::memory_order_acq_rel));
}

void Session::ListenerScope::release() noexcept {
  if (Session* const session = std::exchange(session_, nullptr)) session->leave_listener_scope();
}

void Session::leave_listener_scope() noexcept {
  if (open_scopes_.fetch_sub(1, std::memory_order_acq_rel) == 1) agent_->end_notified(*this);
}

void Session::closed(Link& link, std::exception_ptr reason) {
  const IoCallbackScope io_callback;
  end(std::make_exception_ptr(PeerLostError(
          name_of(peer_) + ": " + (said_goodbye_ ? "it has left the group" : text_of(reason)), link.gauges().begun)),
      {.may_return = !said_goodbye_});
}

void Session::disconnected(Link&) {
  const IoCallbackScope io_callback;
  agent_->reconnect(shared_from_this());
}

}  // namespace tendril::rpc::detail
