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
  int stalled = 0, followed = 0, newer = 0, renumbered = 0;
  Totals& operator+=(const Totals& other) {
    delivered += other.delivered, resumed += other.resumed, crossed += other.crossed, ignored += other.ignored;
    ended += other.ended, postponed_and_forgotten += other.postponed_and_forgotten;
    stalled += other.stalled, followed += other.followed, newer += other.newer, renumbered += other.renumbered;
    return *this;
  }
};

class Network {
 public:
  struct Faults {
    bool cuts = true, restarts = false, partitions = false, stalls = false;
  };
  Network(unsigned seed, Faults faults) : random_(seed), faults_(faults) {
    for (int side : {0, 1}) workers_[side].incarnation = ++incarnations_;
    for (int side : {0, 1}) introduce(side);
  }

  /// Something happens.
  void step();

  /// Nothing more is lost. Both sides say one thing more, so that either learns of the other's end.
  void settle();

  const std::string& problem() const { return problem_; }  ///< empty: none
  const Totals& totals() const { return totals_; }

 private:
  struct Item {
    enum Kind { hello, answer, refusal, frame, end } kind = end;
    State::Hello said = {};  // of a refusal: the number of the next session, or 0
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
    uint64_t incarnation = 0;
    struct {
      uint64_t incarnation = 0;
      uint32_t next = 1;
    } ended = {};  // the last session that ended: the peer's incarnation, and the number of the next session
    std::unique_ptr<Session> session;
  };

  bool chance(unsigned in) { return random_() % in == 0; }
  void wrong(const std::string& what);

  // ---- workers
  void introduce(int side);
  /// As rank 0 tells all who is there: a session with one that was started anew is over.
  void hear_of_members(int side);
  void kill(int side);
  void start(int side);
  void end(int side, uint32_t next = 0);

  // ---- connections
  void close(const Link& link, int side);
  void put(const Link& link, int side, const Item& item);
  /// Of what is on its way only a beginning comes.
  void cut(const Link& link);
  void sweep();

  // ---- dialling
  void begin_dial(int side);
  void attempt(int side);
  void retry(int side);
  void end_dial(Session& session);

  // ---- what comes
  void deliver_somewhere();
  bool deliver(const Link kept, int side);
  void received(Session& session, const Item& item);
  void hello(const Link& link, int side, const State::Hello& said);
  void answered(const Link& link, int side, const State::Hello& said);

  // ---- the link
  void send(int side);
  void write(int side);
  void lose(int side);
  /// Treats the connection as stalled: nothing arrives over it.
  void stall(int side);
  void wait_for_connection(int side);
  /// A writer of the connection before may still be at work: then a little later.
  void resume(int side, const Link& link, uint64_t received);
  static bool is_postponed(const Session& session, const Link& link);
  void resume_postponed(int side);

  // ---- time
  void timers();
  /// Until nothing is on its way and no timer runs but those of grace periods that are over.
  void calm_down();

  void check_end();

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
