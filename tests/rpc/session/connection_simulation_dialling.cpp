// Dialling, what comes over connections, and the link, as Dial, Handshake and SocketLink do it.
#include "tests/rpc/session/connection_simulation.h"

namespace connection_simulation {

// ---- dialling

void Network::begin_dial(int side) {
  Session& session = *workers_[side].session;
  close(std::exchange(session.dial, nullptr), side);
  session.state.begin_dial(now_);
  attempt(side);
}

void Network::attempt(int side) {
  Session& session = *workers_[side].session;
  session.next_attempt = session.attempt_ends = Clock::time_point::max();
  const auto ends = session.state.try_dial(now_);
  if (!ends) return;
  session.attempt_ends = *ends;
  if (partitioned_) return;  // no answer
  if (!workers_[1 - side].up) return end(side);
  if (!session.state.should_introduce(now_)) return retry(side);
  session.dial = std::make_shared<Connection>();
  connections_.push_back(session.dial);
  put(session.dial, 1 - side, {.kind = Item::hello, .said = session.state.say_hello(session.received.count())});
  const auto& other = workers_[1 - side].session;
  if (other && other->dial) ++totals_.crossed;
}

void Network::retry(int side) {
  Session& session = *workers_[side].session;
  close(std::exchange(session.dial, nullptr), side);
  session.attempt_ends = Clock::time_point::max();
  const auto next = session.state.retry(now_);
  if (!next) return end(side);
  session.next_attempt = *next;
}

void Network::end_dial(Session& session) {
  session.attempt_ends = session.next_attempt = Clock::time_point::max();
  session.state.end_dial();
}

// ---- what comes

void Network::deliver_somewhere() {
  if (connections_.empty()) return;
  const auto at = std::next(connections_.begin(), static_cast<long>(random_() % connections_.size()));
  deliver(*at, static_cast<int>(random_() % 2));
}

bool Network::deliver(const Link kept, int side) {
  Connection& link = *kept;
  Worker& me = workers_[side];
  if (!link.open[side] || link.to[side].empty() || (me.session && is_postponed(*me.session, kept))) return false;
  const Item item = link.to[side].front();
  link.to[side].pop_front();
  Session* const session = me.session.get();
  switch (item.kind) {
    case Item::hello:
      hello(kept, side, item.said);
      break;
    case Item::answer:
      if (session && session->dial == kept) answered(kept, side, item.said);
      break;
    case Item::refusal:
      if (session && session->dial == kept) {
        if (session->state.ended_there(item.said.session)) {
          ++totals_.renumbered;
          retry(side);
        } else {
          end(side, item.said.session);
        }
      }
      break;
    case Item::frame:
      if (session && session->over == kept) received(*session, item);
      break;
    case Item::end:
      link.open[side] = false;
      if (session && session->over == kept)
        lose(side);
      else if (session && session->dial == kept)
        retry(side);
      break;
  }
  return true;
}

void Network::received(Session& session, const Item& item) {
  ++totals_.delivered;
  if (item.id != ++session.heard)
    wrong("message " + std::to_string(item.id) + " came as number " + std::to_string(session.heard));
  session.received.received(1);
  try {
    session.sent.acknowledged(item.acknowledged);
  } catch (const std::exception& e) {
    wrong(e.what());
  }
}

void Network::hello(const Link& link, int side, const State::Hello& said) {
  Worker& me = workers_[side];
  Session* const session = me.session.get();
  const bool known = session && session->peer_incarnation == said.incarnation;
  const bool may_be_new = said.peer_incarnation == me.incarnation;
  Accept decision =
      known ? session->state.accept(said, session->sent.received(), true) : State::accept_unknown(false, may_be_new);
  if (decision == Accept::take) {
    const Link own = session->dial;
    session->state.take(said);
    if (session->state.begun()) lose(side);
    if (!me.session || !session->state.can_go_on()) decision = Accept::refuse;  // there was nobody left to dial
    if (decision == Accept::take) {
      put(link, 1 - side,
          {.kind = Item::answer,
           .said = {me.incarnation, session->peer_incarnation, session->received.count(), 0, 0,
                    session->state.session()}});
      session->state.took();
      if (own && own == session->dial) {
        close(std::exchange(session->dial, nullptr), side);
        end_dial(*session);
      }
      return resume(side, link, said.received);
    }
  }
  if (decision == Accept::ignore) ++totals_.ignored;
  if (decision == Accept::newer) {
    ++totals_.newer;
    end(side, said.session);
  }
  if (decision == Accept::refuse)
    put(link, 1 - side,
        {.kind = Item::refusal, .said = {.session = known && me.session ? session->state.session() : 0}});
  close(link, side);
}

void Network::answered(const Link& link, int side, const State::Hello& said) {
  Session& session = *workers_[side].session;
  switch (session.state.answered(said, session.received.count())) {
    case Answer::started_anew:
      return end(side);
    case Answer::not_needed:
      close(std::exchange(session.dial, nullptr), side);
      return end_dial(session);
    case Answer::stale:
      return retry(side);
    case Answer::resume:
      session.dial = nullptr;
      end_dial(session);
      return resume(side, link, said.received);
  }
}

// ---- the link

void Network::send(int side) {
  Worker& me = workers_[side];
  if (!me.session) return;
  Session& session = *me.session;
  Message message;
  message.kind = MessageKind::reply;
  message.call_id = ++session.said;
  session.queue.emplace_back(std::move(message));
  if (session.state.phase() == Phase::open) return write(side);
  if (session.state.wanted()) begin_dial(side);
}

void Network::write(int side) {
  Session& session = *workers_[side].session;
  while (!session.queue.empty()) {
    FrameList one;
    one.splice(one.end(), session.queue, session.queue.begin());
    put(session.over, 1 - side,
        {.kind = Item::frame, .id = one.front().call_id(), .acknowledged = session.received.say()});
    session.sent.taken(1);
    session.sent.written(one);
  }
}

void Network::lose(int side) {
  switch (workers_[side].session->state.lost(now_)) {
    case Loss::known:
      return;
    case Loss::end:
      return end(side);
    case Loss::wait:
      return wait_for_connection(side);
  }
}

void Network::stall(int side) {
  const auto& session = workers_[side].session;
  if (!session || session->state.stalled(now_ + 5s) != Loss::wait) return;
  ++totals_.stalled;
  wait_for_connection(side);
}

void Network::wait_for_connection(int side) {
  Session& session = *workers_[side].session;
  close(std::exchange(session.over, nullptr), side);
  session.sent.stopped();
  session.grace = session.state.grace_ends();
  session.grace_of = session.state.connection();
  begin_dial(side);
}

void Network::resume(int side, const Link& link, uint64_t received) {
  Session& session = *workers_[side].session;
  session.postponed.push_back({link, received, session.state.resumption()});
  if (session.postponed.size() == 1 && (!session.state.begun() || !chance(4))) resume_postponed(side);
}

bool Network::is_postponed(const Session& session, const Link& link) {
  return std::any_of(session.postponed.begin(), session.postponed.end(),
                     [&](const auto& one) { return one.link == link; });
}

void Network::resume_postponed(int side) {
  Worker& me = workers_[side];
  if (!me.session || me.session->postponed.empty()) return;
  Session& session = *me.session;
  const auto [link, received, resumption] = session.postponed.front();
  session.postponed.pop_front();
  if (resumption != session.state.resumption()) {
    ++totals_.postponed_and_forgotten;
    return close(link, side);
  }
  if (!session.state.resumed()) return close(link, side);
  ++totals_.resumed;
  try {
    session.sent.resumed(received, session.queue);
  } catch (const std::exception& e) {
    return wrong(e.what());
  }
  session.over = link;
  session.grace = Clock::time_point::max();
  write(side);
}

}  // namespace connection_simulation
