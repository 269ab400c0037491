#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "tendril/rpc/session/connection_state.h"
#include "tendril/rpc/transport/sent_frames.h"

/// Two workers, the connections between them and the time, all in one thread, for connection_state_test. What
/// SocketLink, Dial and Handshake do with sockets is done here with queues, by the same decisions.
namespace connection_simulation {

using namespace std::chrono_literals;
using tendril::rpc::Clock;
using tendril::rpc::FrameList;
using tendril::rpc::Message;
using tendril::rpc::MessageKind;
using State = tendril::rpc::detail::ConnectionState;
using Phase = State::Phase;
using Loss = State::Loss;
using Answer = State::Answer;
using Accept = State::Accept;

struct Totals {
  int delivered = 0, resumed = 0, crossed = 0, ignored = 0, ended = 0, postponed_and_forgotten = 0;
  Totals& operator+=(const Totals& other) {
    delivered += other.delivered, resumed += other.resumed, crossed += other.crossed, ignored += other.ignored;
    ended += other.ended, postponed_and_forgotten += other.postponed_and_forgotten;
    return *this;
  }
};

class Network {
 public:
  struct Faults {
    bool cuts = true, restarts = false, partitions = false;
  };
  Network(unsigned seed, Faults faults) : random_(seed), faults_(faults) {
    for (int side : {0, 1}) workers_[side].incarnation = ++incarnations_;
    for (int side : {0, 1}) introduce(side);
  }

  /// Something happens.
  void step() {
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

  /// Nothing more is lost. Both sides say one thing more, so that either learns of the other's end.
  void settle() {
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

  const std::string& problem() const { return problem_; }  ///< empty: none
  const Totals& totals() const { return totals_; }

 private:
  struct Item {
    enum Kind { hello, answer, refusal, frame, end } kind = end;
    State::Hello said = {};
    uint64_t id = 0;
    uint32_t acknowledged = 0;
  };
  struct Connection {
    std::deque<Item> to[2];
    bool open[2] = {true, true};
    bool lost = false;  // what is said from here on does not come
  };
  using Link = std::shared_ptr<Connection>;
  struct Session {
    explicit Session(const State::Terms& terms) : peer_incarnation(terms.peer_incarnation), state(terms) {}
    const uint64_t peer_incarnation;
    State state;
    tendril::rpc::SentFrames sent;
    tendril::rpc::ReceivedFrames received;
    FrameList queue;
    uint64_t said = 0, heard = 0;  // messages
    Link over;                     // while open
    Link dial;                     // over which a hello was said
    struct Postponed {
      Link link;
      uint64_t received = 0, resumption = 0;
    };
    std::deque<Postponed> postponed;  // answered, and to be resumed; until then nothing is read
    Clock::time_point grace = Clock::time_point::max(), attempt_ends = Clock::time_point::max(),
                      next_attempt = Clock::time_point::max();
    uint64_t grace_of = 0;
  };
  struct Worker {
    bool up = true;
    uint64_t incarnation = 0, last_ended = 0;
    std::unique_ptr<Session> session;
  };

  bool chance(unsigned in) { return random_() % in == 0; }
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  // ---- workers
  void introduce(int side) {
    Worker& me = workers_[side];
    const Worker& peer = workers_[1 - side];
    if (!me.up || !peer.up || me.session || me.last_ended == peer.incarnation) return;
    me.session = std::make_unique<Session>(State::Terms{.self = side,
                                                        .peer = 1 - side,
                                                        .incarnation = me.incarnation,
                                                        .peer_incarnation = peer.incarnation,
                                                        .grace = 10s});
  }
  /// As rank 0 tells all who is there: a session with one that was started anew is over.
  void hear_of_members(int side) {
    Worker& me = workers_[side];
    if (me.session && workers_[1 - side].up && me.session->peer_incarnation != workers_[1 - side].incarnation)
      end(side);
    introduce(side);
  }
  void kill(int side) {
    Worker& me = workers_[side];
    me.up = false;
    me.session.reset();
    for (const Link& link : connections_) close(link, side);
  }
  void start(int side) {
    workers_[side].up = true;
    workers_[side].incarnation = ++incarnations_;
    workers_[side].last_ended = 0;
    introduce(side);
  }
  void end(int side) {
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
  void close(const Link& link, int side) {
    if (!link || !link->open[side]) return;
    link->open[side] = false;
    link->to[side].clear();
    put(link, 1 - side, {.kind = Item::end});
  }
  void put(const Link& link, int side, const Item& item) {
    if (link->open[side] && !link->lost) link->to[side].push_back(item);
  }
  /// Of what is on its way only a beginning comes.
  void cut(const Link& link) {
    if (link->lost) return;
    for (int side : {0, 1}) {
      auto& items = link->to[side];
      if (!items.empty()) items.resize(items.size() - random_() % (items.size() + 1));
      if (link->open[side]) items.push_back({.kind = Item::end});
    }
    link->lost = true;
  }
  void sweep() {
    connections_.remove_if([](const Link& link) { return !link->open[0] && !link->open[1]; });
  }

  // ---- dialling
  void begin_dial(int side) {
    Session& session = *workers_[side].session;
    close(std::exchange(session.dial, nullptr), side);
    session.state.begin_dial(now_);
    attempt(side);
  }
  void attempt(int side) {
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
  void retry(int side) {
    Session& session = *workers_[side].session;
    close(std::exchange(session.dial, nullptr), side);
    session.attempt_ends = Clock::time_point::max();
    const auto next = session.state.retry(now_);
    if (!next) return end(side);
    session.next_attempt = *next;
  }
  void end_dial(Session& session) {
    session.attempt_ends = session.next_attempt = Clock::time_point::max();
    session.state.end_dial();
  }

  // ---- what comes
  void deliver_somewhere() {
    if (connections_.empty()) return;
    const auto at = std::next(connections_.begin(), static_cast<long>(random_() % connections_.size()));
    deliver(*at, static_cast<int>(random_() % 2));
  }
  bool deliver(const Link kept, int side) {
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
        if (session && session->dial == kept) end(side);
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
  void received(Session& session, const Item& item) {
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
  void hello(const Link& link, int side, const State::Hello& said) {
    Worker& me = workers_[side];
    Session* const session = me.session.get();
    const bool known = session && session->peer_incarnation == said.incarnation;
    const bool may_be_new = said.peer_incarnation == me.incarnation && me.last_ended != said.incarnation;
    Accept decision =
        known ? session->state.accept(said, session->sent.received(), true) : State::accept_unknown(false, may_be_new);
    if (decision == Accept::take) {
      const Link own = session->dial;
      session->state.take(said);
      if (session->state.begun()) lose(side);
      if (!me.session || !session->state.can_go_on()) decision = Accept::refuse;  // there was nobody left to dial
      if (decision == Accept::take) {
        put(link, 1 - side,
            {.kind = Item::answer, .said = {me.incarnation, session->peer_incarnation, session->received.count(), 0}});
        session->state.took();
        if (own && own == session->dial) {
          close(std::exchange(session->dial, nullptr), side);
          end_dial(*session);
        }
        return resume(side, link, said.received);
      }
    }
    if (decision == Accept::ignore) ++totals_.ignored;
    if (decision == Accept::refuse) put(link, 1 - side, {.kind = Item::refusal});
    close(link, side);
  }
  void answered(const Link& link, int side, const State::Hello& said) {
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
  void send(int side) {
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
  void write(int side) {
    Session& session = *workers_[side].session;
    while (!session.queue.empty()) {
      FrameList one;
      one.splice(one.end(), session.queue, session.queue.begin());
      put(session.over, 1 - side,
          {.kind = Item::frame, .id = one.front().message().call_id, .acknowledged = session.received.say()});
      session.sent.taken(1);
      session.sent.written(one);
    }
  }
  void lose(int side) {
    Session& session = *workers_[side].session;
    switch (session.state.lost(now_)) {
      case Loss::known:
        return;
      case Loss::end:
        return end(side);
      case Loss::wait:
        break;
    }
    close(std::exchange(session.over, nullptr), side);
    session.sent.stopped();
    session.grace = session.state.grace_ends();
    session.grace_of = session.state.connection();
    begin_dial(side);
  }
  /// A writer of the connection before may still be at work: then a little later.
  void resume(int side, const Link& link, uint64_t received) {
    Session& session = *workers_[side].session;
    session.postponed.push_back({link, received, session.state.resumption()});
    if (session.postponed.size() == 1 && (!session.state.begun() || !chance(4))) resume_postponed(side);
  }
  static bool is_postponed(const Session& session, const Link& link) {
    return std::any_of(session.postponed.begin(), session.postponed.end(),
                       [&](const auto& one) { return one.link == link; });
  }
  void resume_postponed(int side) {
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

  // ---- time
  void timers() {
    for (int side : {0, 1}) {
      const auto& session = workers_[side].session;
      if (session && now_ >= session->grace && session->state.grace_over(session->grace_of)) end(side);
      if (session && now_ >= session->attempt_ends) retry(side);
      if (session && now_ >= session->next_attempt) attempt(side);
    }
  }
  /// Until nothing is on its way and no timer runs but those of grace periods that are over.
  void calm_down() {
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

  void check_end() {
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

  std::mt19937 random_;
  const Faults faults_;
  uint64_t incarnations_ = 0;
  Clock::time_point now_ = Clock::time_point() + 1h;
  bool partitioned_ = false;
  Worker workers_[2];
  std::list<Link> connections_;
  std::string problem_;
  Totals totals_;
};

}  // namespace connection_simulation
