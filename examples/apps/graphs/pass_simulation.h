#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tendril/dist/autograd/graph.h"
#include "tendril/dist/autograd/pass_protocol.h"

namespace examples {

using tendril::dist::autograd::MessageId;
using tendril::dist::autograd::PassAction;
using tendril::dist::autograd::PassProtocol;
using tendril::dist::autograd::PassToken;
using tendril::dist::autograd::RemoteEdge;
using tendril::dist::autograd::WorkerReport;
using tendril::rpc::WorkerId;

/// A recorded message. Its recv node waits for the gradients of the receiver's send nodes in `users`, and for those of
/// the roots, which are on the worker that calls backward.
struct SimulatedMessage {
  WorkerId sender = 0;                ///< the worker with the send node
  WorkerId receiver = 0;              ///< the worker with the recv node
  std::vector<MessageId> users = {};  ///< messages that the receiver computed from this one and sent
  bool used_by_root = false;          ///< the roots were computed from it
};
/// All messages of a graph.
using SimulatedGraph = std::map<MessageId, SimulatedMessage>;

/// Returns the messages of a recorded graph and how they depend on each other.
SimulatedGraph messages_of(const tendril::dist::autograd::RecordedGraph& graph);

/// Simulates a backward without tensors, sockets, threads or clocks: every worker has the real PassProtocol, and the
/// caller chooses the next event. In every order of events, each message that the roots depend on gets exactly one
/// gradient and no worker is left waiting: the tests try many orders, and examples/step_through shows one. Not
/// thread-safe.
class PassSimulation {
 public:
  struct Options {
    int workers = 2;
    bool fast = false;        ///< FAST instead of SMART
    bool mark_first = false;  ///< an earlier pass over this graph got stuck
    WorkerId root = 0;        ///< the worker that calls backward
  };
  /// A possible event: a message or an answer arrives at `to`, or `to` runs its graph.
  struct Event {
    enum Kind : uint8_t { gradient, mark, resolve, over, answer, over_answer, run };
    Kind kind = run;
    WorkerId from = -1, to = -1;
    std::vector<MessageId> messages = {};  ///< of a gradient: its message; of a mark: the marked messages
    bool resolved = false;                 ///< of a gradient
    PassToken token = 0;                   ///< identifies a message that must be answered
    std::vector<WorkerReport> reports = {};
    bool refused = false;  ///< of an answer
  };
  /// The state of a send node.
  struct SendState {
    bool entry = false, marked = false, fed = false, dropped = false;
  };

  /// Throws std::invalid_argument if a message has an unknown worker or user, or the root's rank is out of range.
  PassSimulation(SimulatedGraph graph, const Options& options);

  /// Begins the backward at the root's worker.
  void start();
  /// Returns the possible next events, in the order in which they became possible. The answers from one worker to
  /// another arrive in the order in which they were sent, as over a session. Empty if nothing can happen any more.
  const std::vector<Event>& events() const noexcept { return events_; }
  /// Lets one of `events` happen, and carries out the actions that follow from it.
  void happen(std::size_t event);
  /// Makes the pass fail at this worker, if the worker takes part in it.
  void fail(WorkerId worker);

  bool finished() const noexcept { return finished_; }  ///< backward has returned or thrown
  bool failed() const;                                  ///< backward has thrown
  bool stuck() const;                                   ///< FAST waits forever, or SMART had to mark
  /// Whether the worker has begun its part and not ended it.
  bool takes_part(WorkerId worker) const { return workers_.at(worker).here; }
  bool any_worker_takes_part() const;
  SendState send_state(MessageId message) const;
  bool has_run(MessageId message) const { return run_.contains(message); }  ///< the recv node of the message
  /// The messages whose recv nodes have sent gradients, once per gradient.
  const std::multiset<MessageId>& gradients() const noexcept { return gradients_; }
  int sent(Event::Kind kind) const;  ///< how many events of this kind became possible
  /// One line per event, followed by one indented line per action that it caused.
  const std::vector<std::string>& transcript() const noexcept { return transcript_; }

  /// Returns an event as a line: "rank 1 gets gradient 1.3 from rank 0".
  static std::string to_string(const Event& event);

 private:
  struct Worker {
    PassProtocol protocol;
    bool begun = false;  // its graph has been run
    std::set<MessageId> entries = {}, had = {}, dropped = {}, fed = {};
    bool here = false;
  };

  Worker make(WorkerId id, bool all_received, uint64_t reports) const;
  void post(Event event);
  PassToken token_of(WorkerId sender);
  void run_graph(WorkerId id);
  void run_once(WorkerId id, Worker& worker);
  std::vector<RemoteEdge> behind(WorkerId id, const std::vector<MessageId>& sends, bool roots);
  void deliver(const Event& event);
  void act(WorkerId id);
  void carry_out(WorkerId id, const PassAction& action);
  void forget(WorkerId id);

  const SimulatedGraph graph_;
  const Options options_;
  std::map<WorkerId, Worker> workers_;
  std::vector<Event> events_;
  std::vector<Event> behind_;          // answers that must arrive after one of `events_`
  std::vector<WorkerId> senders_{-1};  // by token
  std::multiset<MessageId> gradients_;
  std::map<WorkerId, std::set<MessageId>> walked_;
  std::set<MessageId> run_;
  std::map<MessageId, SendState> ended_;  // of workers that have forgotten the pass
  std::map<Event::Kind, int> counts_;
  std::vector<std::string> transcript_;
  bool finished_ = false;
};

}  // namespace examples
