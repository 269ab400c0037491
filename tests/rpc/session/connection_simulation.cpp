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
    now_ += std::chrono::milliseconds(random_() % (faults_.cuts && chance(20) ? 4000 : 20));
    timers();
  } else if (what < 92) {
    resume_postponed(side);
  } else if (what < 95) {
    if (faults_.cuts && !connections_.empty())
      cut(*std::next(connections_.begin(), static_cast<long>(random_() % connections_.size())));
  } else if (what < 96 && faults_.partitions) {
    partitioned_ = chance(2);
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
  if (!me.up || !peer.up || me.session || me.last_ended == peer.incarnation) return;
  me.session = std::make_unique<Session>(State::Terms{.self = side,
                                                      .peer = 1 - side,
                                                      .incarnation = me.incarnation,
                                                      .peer_incarnation = peer.incarnation,
                                                      .grace = 10s});
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
  workers_[side].last_ended = 0;
  introduce(side);
}

void Network::end(int side) {
  Worker& me = workers_[side];
  if (!me.session) return;
  ++totals_.ended;
  me.session->state.ended();
  me.last_ended = me.session->peer_incarnation;
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
  if (!a) {
    if (!connections_.empty()) wrong("a connection without a session");
    return;
  }
  if (a->peer_incarnation != workers_[1].incarnation || b->peer_incarnation != workers_[0].incarnation)
    return wrong("a session with one that is not there any more");
  if (a->state.phase() != Phase::open || b->state.phase() != Phase::open) return wrong("a session that is not open");
  if (a->over != b->over) return wrong("each side has a connection of its own");
  if (connections_.size() != 1) return wrong(std::to_string(connections_.size()) + " connections");
  if (a->heard != b->said || b->heard != a->said) wrong("something has not come");
}

}  // namespace connection_simulation
