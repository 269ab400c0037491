#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tendril/dist/autograd/pass_protocol.h"
#include "tendril/dist/autograd/simulated_graph.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// A backward over a graph without tensors, sockets, threads or clocks: every worker has the real
/// PassProtocol, and whoever holds the simulation chooses what happens next. Whatever is chosen, every message that the
/// roots depend on gets one gradient and nobody is left waiting: tests try many orders, and examples/step_through shows
/// one. Not thread-safe.
class PassSimulation {
 public:
  /// What is simulated.
  struct Options {
    int workers = 2;
    bool fast = false;        ///< FAST in place of SMART
    bool mark_first = false;  ///< a pass got stuck before
    rpc::WorkerId root = 0;   ///< who calls backward
  };
  /// What may happen: a message or an answer comes to `to`, or `to` runs its graph.
  struct Event {
    /// What comes, or that the graph runs.
    enum Kind : uint8_t { gradient, mark, resolve, over, answer, over_answer, run };
    Kind kind = run;
    rpc::WorkerId from = -1, to = -1;
    std::vector<MessageId> messages = {};  ///< of a gradient: the one that it is for; of a mark: those marked
    bool resolved = false;                 ///< of a gradient
    PassToken token = 0;                   ///< names what comes, which is to be answered
    std::vector<WorkerReport> reports = {};
    bool refused = false;  ///< of an answer
  };
  /// What one worker knows of one of its send nodes.
  struct SendState {
    bool entry = false, marked = false, fed = false, dropped = false;
  };

  /// Throws std::invalid_argument if a message is between workers that there are none, its users are
  /// none, or the root's rank is none.
  PassSimulation(SimulatedGraph graph, const Options& options);

  /// The root's rank begins.
  void start();
  /// What may happen next, in the order in which it became possible. One worker's answers to another come in the order
  /// in which they were sent, as over a session. Empty: nothing will happen any more.
  const std::vector<Event>& events() const noexcept { return events_; }
  /// One of `events` happens. The actions that follow are carried out, what they send becomes possible.
  void happen(std::size_t event);
  /// Something goes wrong at this worker, if it takes part.
  void fail(rpc::WorkerId worker);

  bool finished() const noexcept { return finished_; }  ///< backward has returned, or thrown
  bool failed() const;                                  ///< ... thrown
  bool stuck() const;                                   ///< FAST would wait for ever; SMART had to mark
  /// Whether the worker has begun its part and not ended it.
  bool takes_part(rpc::WorkerId worker) const { return workers_.at(worker).here; }
  bool somebody_takes_part() const;               ///< any worker
  SendState send_state(MessageId message) const;  ///< of the message's send node, with its sender
  bool has_run(MessageId message) const { return run_.contains(message); }  ///< its recv node
  /// The messages whose recv nodes have sent gradients, as often as they have.
  const std::multiset<MessageId>& gradients() const noexcept { return gradients_; }
  int sent(Event::Kind kind) const;  ///< how many such events became possible
  /// What has happened, one line each: events, and below each, indented, the actions that followed.
  const std::vector<std::string>& transcript() const noexcept { return transcript_; }

  /// An event as a line: "rank 1 gets gradient 1.3 from rank 0".
  static std::string to_string(const Event& event);

 private:
  struct Worker {
    PassProtocol protocol;
    bool begun = false;  // its graph has been run
    std::set<MessageId> entries = {}, had = {}, dropped = {}, fed = {};
    bool drop = false;
    bool here = false;
  };

  Worker make(rpc::WorkerId id, bool all_fed, uint64_t reports) const;
  void post(Event event);
  PassToken token_of(rpc::WorkerId sender);
  void run_graph(rpc::WorkerId id);
  void run_once(rpc::WorkerId id, Worker& worker);
  std::vector<RemoteEdge> behind(rpc::WorkerId id, const std::vector<MessageId>& sends, bool roots);
  void deliver(const Event& event);
  void act(rpc::WorkerId id);
  void carry_out(rpc::WorkerId id, const PassAction& action);
  void forget(rpc::WorkerId id);

  const SimulatedGraph graph_;
  const Options options_;
  std::map<rpc::WorkerId, Worker> workers_;
  std::vector<Event> events_;
  std::vector<Event> behind_;               // answers that come after one of `events_`
  std::vector<rpc::WorkerId> senders_{-1};  // by token
  std::multiset<MessageId> gradients_;
  std::map<rpc::WorkerId, std::set<MessageId>> walked_;
  std::set<MessageId> run_;
  std::map<MessageId, SendState> ended_;  // of workers that have forgotten the pass
  std::map<Event::Kind, int> counts_;
  std::vector<std::string> transcript_;
  bool finished_ = false;
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
