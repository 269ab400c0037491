// Chance, workers, connections, the time, and what must be true in the end.
#include "tests/rpc/session/connection_simulation.h"

namespace connection_simulation {

void Network::step() {
  const unsigned what = random_() % 100;
  const int side = static_cast<int>(random_() % 2);
  if (what < 30) {
    send(side);
  } else if (what < 75) {
    deliver_somewhere();
  } else if (what < 85) {
    const bool longer_than_first_dials = partitioned_ && faults_.stalls && chance(3);
    now_ += std::chrono::milliseconds(longer_than_first_dials ? 21'000
                                                              : random_() % (faults_.cuts && chance(20) ? 4000 : 20));
    timers();
  } else if (what < 92) {
    resume_postponed(side);
  } else if (what < 95) {
    if (faults_.cuts && !connections_.empty())
      cut(*std::next(connections_.begin(), static_cast<long>(random_() % connections_.size())));
  } else if (what < 96 && faults_.partitions) {
    partitioned_ = chance(2);
    // Frames in flight are lost, and neither side notices.
    if (partitioned_ && faults_.stalls) {
      for (const Link& link : connections_) {
        for (auto& items : link->to) items.clear();
        link->lost = true;
      }
    }
  } else if (what < 97 && faults_.stalls && chance(2)) {
    stall(side);
  } else if (what < 97 && faults_.restarts && chance(8)) {
    if (workers_[side].up) {
      kill(side);
    } else {
      start(side);
    }
  } else {
    hear_of_members(side);
  }
  sweep();
}

void Network::settle() {
  partitioned_ = false;
  for (int side : {0, 1}) {
    if (!workers_[side].up) start(side);
  }
  for (int round = 0; round < 3; ++round) {
    calm_down();
    for (int side : {0, 1}) {
      hear_of_members(side);
      send(side);
    }
  }
  calm_down();
  check_end();
}

void Network::wrong(const std::string& what) {
  if (problem_.empty()) problem_ = what;
}

// ---- workers

void Network::introduce(int side) {
  Worker& me = workers_[side];
  const Worker& peer = workers_[1 - side];
  if (!me.up || !peer.up || me.session) return;
  const uint32_t number = me.ended.incarnation == peer.incarnation ? me.ended.next : 1;
  if (number > 1) ++totals_.followed;
  me.session = std::make_unique<Session>(State::Terms{.self = side,
                                                      .peer = 1 - side,
                                                      .incarnation = me.incarnation,
                                                      .peer_incarnation = peer.incarnation,
                                                      .grace = 10s,
                                                      .session = number});
}

void Network::hear_of_members(int side) {
  Worker& me = workers_[side];
  if (me.session && workers_[1 - side].up && me.session->peer_incarnation != workers_[1 - side].incarnation) end(side);
  introduce(side);
}

void Network::kill(int side) {
  Worker& me = workers_[side];
  me.up = false;
  me.session.reset();
  for (const Link& link : connections_) close(link, side);
}

void Network::start(int side) {
  workers_[side].up = true;
  workers_[side].incarnation = ++incarnations_;
  introduce(side);
}

void Network::end(int side, uint32_t next) {
  Worker& me = workers_[side];
  if (!me.session) return;
  ++totals_.ended;
  me.session->state.ended();
  me.ended = {me.session->peer_incarnation, std::max(me.session->state.session() + 1, next)};
  for (const Link& link : {me.session->over, me.session->dial}) close(link, side);
  for (const auto& one : me.session->postponed) close(one.link, side);
  me.session.reset();
}

// ---- connections

void Network::close(const Link& link, int side) {
  if (!link || !link->open[side]) return;
  link->open[side] = false;
  link->to[side].clear();
  put(link, 1 - side, {.kind = Item::end});
}

void Network::put(const Link& link, int side, const Item& item) {
  if (link->open[side] && !link->lost) link->to[side].push_back(item);
}

void Network::cut(const Link& link) {
  if (link->lost) return;
  for (int side : {0, 1}) {
    auto& items = link->to[side];
    if (!items.empty()) items.resize(items.size() - random_() % (items.size() + 1));
    if (link->open[side]) items.push_back({.kind = Item::end});
  }
  link->lost = true;
}

void Network::sweep() {
  connections_.remove_if([](const Link& link) { return !link->open[0] && !link->open[1]; });
}

// ---- time

void Network::timers() {
  for (int side : {0, 1}) {
    const auto& session = workers_[side].session;
    if (session && now_ >= session->grace && session->state.grace_over(session->grace_of)) end(side);
    if (session && now_ >= session->attempt_ends) retry(side);
    if (session && now_ >= session->next_attempt) attempt(side);
  }
}

void Network::calm_down() {
  for (int round = 0; round < 100'000; ++round) {
    bool busy = false;
    for (int side : {0, 1}) {
      const auto& session = workers_[side].session;
      if (session && session->over && session->over->lost && session->state.phase() == Phase::open)
        busy = true, stall(side);  // as pings would detect
      if (!session) introduce(side);
      if (workers_[side].session && !workers_[side].session->postponed.empty()) busy = true, resume_postponed(side);
      const std::list<Link> links = connections_;
      for (const Link& link : links) busy = deliver(link, side) || busy;
    }
    sweep();
    if (busy) continue;
    Clock::time_point next = Clock::time_point::max();
    for (const Worker& worker : workers_) {
      if (!worker.session) continue;
      next = std::min({next, worker.session->attempt_ends, worker.session->next_attempt, worker.session->grace});
    }
    if (next == Clock::time_point::max()) return;
    now_ = std::max(now_, next);
    timers();
  }
  wrong("it never ends");
}

void Network::check_end() {
  const Session* const a = workers_[0].session.get();
  const Session* const b = workers_[1].session.get();
  if (!a != !b) return wrong("one side's session has ended, the other's has not");
  if (!a) return wrong("two live workers have no session");
  if (a->peer_incarnation != workers_[1].incarnation || b->peer_incarnation != workers_[0].incarnation)
    return wrong("a session with one that is not there any more");
  if (a->state.phase() != Phase::open || b->state.phase() != Phase::open) return wrong("a session that is not open");
  if (a->state.session() != b->state.session()) return wrong("the two sides are at different sessions");
  if (a->over != b->over) return wrong("each side has a connection of its own");
  // One side of a connection that stalled may never learn that the other has closed it.
  const auto passing =
      std::count_if(connections_.begin(), connections_.end(), [](const Link& link) { return !link->lost; });
  if (passing != 1) return wrong(std::to_string(passing) + " connections");
  if (a->heard != b->said || b->heard != a->said) wrong("something has not come");
}

}  // namespace connection_simulation
