#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/call/rref_state.h"
#include "tendril/rpc/reference/rref_table.h"

namespace tendril::rpc::test {

/// The object behind every reference of a simulation.
struct Object {
  std::shared_ptr<RRefState> inner;  ///< a reference that the object holds itself
};

/// Simulates the RRef tables of several workers, the calls between them, and a network that loses, repeats and reorders
/// packets. Runs in one thread with a simulated clock, so the seed and the caller determine everything that happens.
///
/// A worker acts as an agent does for its table: it numbers calls, serves each one once, parks messages, and cancels
/// calls. `check` verifies the invariants that must hold after every step.
class Simulation {
 public:
  using Handle = std::shared_ptr<RRefState>;

  struct Faults {
    double drop = 0, duplicate = 0;  ///< probability for each packet
    bool reorder = false;            ///< delivers packets in random order; otherwise the oldest first
  };

  /// The function that a request calls. The references in the request are its arguments.
  enum Function : uint64_t {
    create = 1,       ///< creates an object; the reference to it is the last argument
    create_fail = 2,  ///< throws instead
    keep = 3,         ///< keeps its arguments as handles of the callee
    give_back = 4,    ///< replies with its arguments
    make = 5,         ///< replies with a reference to a new object of the callee
    fetch = 6,        ///< replies once the object exists
    relay = 7,        ///< sends its arguments to the next worker, for `trace_id` more hops; the last worker keeps them
    forget = 8,       ///< drops its arguments
    method = 9,       ///< a call on its first argument, as fetch is; keeps the others
  };

  struct Packet {
    enum Kind { call, control, lost } kind = call;
    WorkerId from = -1, to = -1;
    uint64_t epoch = 0;  // epoch of the connection
    Message message;
    Bytes bytes;
  };

  /// A call that has not ended.
  struct Pending {
    uint64_t function = 0;
    Handle created;
    Handle receiver;  // held until the call has ended
  };

  Simulation(int workers, uint64_t seed, Faults faults);
  Simulation(int workers, uint64_t seed) : Simulation(workers, seed, Faults{}) {}
  ~Simulation();

  // ---- actions of programs; false (or null) if the worker or the connection is down
  Handle remote(WorkerId from, WorkerId to, std::vector<Handle> arguments = {}, Function function = create);
  Handle make_local(WorkerId worker);
  bool call(WorkerId from, WorkerId to, Function function, std::vector<Handle> arguments, uint64_t hops = 0);
  bool to_here(WorkerId from, const Handle& handle) { return call(from, handle->owner().id, fetch, {handle}); }
  void cancel(WorkerId worker, WorkerId callee, uint64_t call_id);
  void cancel_all(WorkerId worker);
  /// Cancels a random call of a random worker, if it has any.
  void cancel_any();
  void cut(WorkerId a, WorkerId b);
  void connect(WorkerId a, WorkerId b);
  void kill(WorkerId worker);
  void restart(WorkerId worker);
  bool can_reach(WorkerId a, WorkerId b) const;

  // ---- steps of the simulation
  bool deliver();                                 ///< delivers the next packet; false if the network is empty
  bool serve();                                   ///< runs the next request that can run; false if none can
  void on_timer(std::chrono::milliseconds time);  ///< advances the clock by `time`
  /// Delivers packets, runs handlers and advances the clock until nothing more happens. If `cancel`, cancels calls that
  /// stay open.
  void settle(bool cancel = true);
  /// Drops all handles and settles. Throws std::logic_error if anything is left.
  void finish();

  /// Throws std::logic_error if an invariant is violated.
  void check() const;
  RRefCounters counters(WorkerId worker) const;
  RRefCounters sum() const;
  std::size_t pending_calls() const;
  int alive_objects() const;

  std::vector<Handle>& handles(WorkerId worker);  ///< the handles that user code on that worker holds
  bool is_alive(WorkerId worker) const;
  RRefTable& table(WorkerId worker);
  int size() const noexcept { return static_cast<int>(workers_.size()); }

  std::deque<Packet> network;
  std::mt19937_64 random;
  Faults faults;
  Clock::time_point now{std::chrono::hours(1)};
  uint64_t packets = 0;  ///< sent so far
  /// Called with each packet before it is sent, and its number, counted from 1. If it returns false, the packet is
  /// lost.
  std::function<bool(uint64_t, const Packet&)> on_send;
  /// Runs once, before the next packet is delivered.
  std::function<void()> next_action;

  // The outcomes of all calls
  uint64_t calls_ended = 0, fetched = 0, fetch_failed = 0, served = 0;
  std::map<RRefId, std::weak_ptr<Object>> objects;
  int parked = 0;  ///< parked messages that have been neither resumed nor refused
  /// Messages refused because of a lost reference while their call was still pending.
  int lost_references = 0;
  std::string last_refusal;  ///< reason of the last refusal

  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random) < p; }

 private:
  struct Worker;
  struct Connection;
  struct Host;
  class ParkedCall;

  void send(Packet packet);
  void receive_request(Worker& at, WorkerId from, Message request);
  void receive_reply(Worker& at, WorkerId from, Message reply);
  void complete(Worker& at, WorkerId from, Message reply);
  bool run(Worker& at, std::size_t index);
  void answer(Worker& at, WorkerId to, uint64_t epoch, Message reply);
  Worker& worker(WorkerId id) const { return *workers_[static_cast<std::size_t>(id)]; }
  void end_connection(WorkerId at, WorkerId peer);
  void fail_pending(Pending pending, const std::string& why);
  void set_object(const Handle& state);
  std::string broken_;  // the rule that has been violated, if any

  std::vector<std::unique_ptr<Worker>> workers_;
  std::map<std::pair<WorkerId, WorkerId>, uint64_t> epochs_;  // epoch of the connection between two workers; 0: none
  uint64_t last_epoch_ = 0;
  uint64_t last_incarnation_ = 100;
};

}  // namespace tendril::rpc::test
