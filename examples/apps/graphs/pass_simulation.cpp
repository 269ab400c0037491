#include "pass_simulation.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tendril/tensor/detail/overloaded.h"

namespace examples {

using namespace tendril::dist::autograd;

namespace {

/// Returns a message's rank and number as text: "2.7" is the seventh message of rank 2.
std::string name_of_message(MessageId message) {
  return std::to_string(worker_of(message)) + '.' + std::to_string(number_of(message));
}

void write_messages(std::ostream& out, const std::vector<MessageId>& messages) {
  for (const MessageId message : messages) out << ' ' << name_of_message(message);
}

void write_reports(std::ostream& out, const std::vector<WorkerReport>& reports) {
  for (const WorkerReport& report : reports) {
    out << ", rank " << report.worker << (report.unfinished ? " waits" : " is done");
  }
}

}  // namespace

PassSimulation::PassSimulation(SimulatedGraph graph, const Options& options)
    : graph_(std::move(graph)), options_(options) {
  if (options.workers < 1)
    throw std::invalid_argument("PassSimulation: workers: got " + std::to_string(options.workers) +
                                ", expected 1 or more");
  if (options.root < 0 || options.root >= options.workers)
    throw std::invalid_argument("PassSimulation: root: got rank " + std::to_string(options.root) + " of " +
                                std::to_string(options.workers));
  for (const auto& [id, message] : graph_) {
    for (const WorkerId worker : {message.sender, message.receiver}) {
      if (worker < 0 || worker >= options.workers) {
        throw std::invalid_argument("PassSimulation: got a message between ranks " + std::to_string(message.sender) +
                                    " and " + std::to_string(message.receiver) + " of " +
                                    std::to_string(options.workers));
      }
    }
    for (const MessageId user : message.users) {
      const auto found = graph_.find(user);
      if (found == graph_.end() || found->second.sender != message.receiver) {
        throw std::invalid_argument("PassSimulation: a user of a message was not sent by the message's receiver");
      }
    }
    if (message.used_by_root && message.receiver != options.root) {
      throw std::invalid_argument("PassSimulation: the roots are on rank " + std::to_string(options.root) +
                                  ", but a message that they use was received on another rank");
    }
  }
  for (WorkerId worker = 0; worker < options.workers; ++worker) workers_.emplace(worker, make(worker, false, 0));
}

PassSimulation::Worker PassSimulation::make(WorkerId id, bool all_received, uint64_t reports) const {
  return {.protocol = PassProtocol({.self = id,
                                    .root = options_.root,
                                    .fast = options_.fast,
                                    .mark_first = options_.mark_first,
                                    .all_received = all_received,
                                    .reports_made = reports})};
}

// ---- queries

std::string PassSimulation::to_string(const Event& event) {
  static constexpr const char* names[] = {"gradient", "mark", "resolve", "over", "the answer", "the answer to over"};
  std::ostringstream out;
  out << "rank " << event.to;
  if (event.kind == Event::run) {
    out << " runs its graph";
    return out.str();
  }
  out << " gets " << names[event.kind];
  write_messages(out, event.messages);
  out << " from rank " << event.from;
  if (event.refused) out << ": refused";
  write_reports(out, event.reports);
  return out.str();
}

bool PassSimulation::failed() const { return workers_.at(options_.root).protocol.failed(); }

bool PassSimulation::stuck() const {
  return options_.fast ? events_.empty() && !finished_ : workers_.at(options_.root).protocol.was_stuck();
}

bool PassSimulation::any_worker_takes_part() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& one) { return one.second.here; });
}

PassSimulation::SendState PassSimulation::send_state(MessageId message) const {
  if (const auto found = ended_.find(message); found != ended_.end()) return found->second;
  const Worker& worker = workers_.at(graph_.at(message).sender);
  return {.entry = worker.entries.contains(message),
          .marked = worker.protocol.is_marked(message),
          .fed = worker.had.contains(message),
          .dropped = worker.dropped.contains(message)};
}

int PassSimulation::sent(Event::Kind kind) const {
  const auto found = counts_.find(kind);
  return found == counts_.end() ? 0 : found->second;
}

// ---- events

void PassSimulation::start() {
  transcript_.push_back("rank " + std::to_string(options_.root) + " starts");
  workers_.at(options_.root).here = true;
  workers_.at(options_.root).protocol.start();
  act(options_.root);
}

namespace {

bool is_answer(const PassSimulation::Event& event) {
  return event.kind == PassSimulation::Event::answer || event.kind == PassSimulation::Event::over_answer;
}

bool comes_after(const PassSimulation::Event& later, const PassSimulation::Event& earlier) {
  return is_answer(later) && is_answer(earlier) && later.from == earlier.from && later.to == earlier.to;
}

}  // namespace

void PassSimulation::happen(std::size_t event) {
  const Event chosen = std::move(events_.at(event));
  events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(event));
  transcript_.push_back(to_string(chosen));
  const auto next =
      std::find_if(behind_.begin(), behind_.end(), [&](const Event& one) { return comes_after(one, chosen); });
  if (next != behind_.end()) {
    events_.push_back(std::move(*next));
    behind_.erase(next);
  }
  if (chosen.kind == Event::run) {
    run_graph(chosen.to);
  } else {
    deliver(chosen);
  }
}

void PassSimulation::fail(WorkerId worker) {
  if (!workers_.at(worker).here) return;
  transcript_.push_back("rank " + std::to_string(worker) + " fails");
  workers_.at(worker).protocol.fail();
  act(worker);
}

void PassSimulation::deliver(const Event& event) {
  Worker& worker = workers_.at(event.to);
  PassProtocol& protocol = worker.protocol;
  switch (event.kind) {
    case Event::gradient:
      worker.here |= !protocol.failed();
      if (!protocol.gradient(event.token, event.messages.at(0), event.resolved)) {
        throw std::logic_error("PassSimulation: received gradients for the same message twice");
      }
      worker.fed.insert(event.messages.at(0));
      break;
    case Event::mark:
      worker.here |= !protocol.failed();
      protocol.mark(event.token, event.messages);
      break;
    case Event::resolve:
      worker.here |= !protocol.failed();
      protocol.resolve(event.token);
      break;
    case Event::over:
      if (!worker.here) {  // the worker refuses late messages of the failed pass
        protocol.fail();
        (void)protocol.take();
        return post({.kind = Event::over_answer, .from = event.to, .to = event.from});
      }
      protocol.over(event.token, event.from);
      break;
    case Event::answer:
      if (!worker.here) return;
      if (event.refused) protocol.fail();
      protocol.answered(event.reports);
      break;
    case Event::over_answer:
      if (!worker.here) return;
      protocol.over_answered();
      break;
    case Event::run:
      break;
  }
  act(event.to);
}

// ---- a worker's graph

void PassSimulation::run_graph(WorkerId id) {
  Worker& worker = workers_.at(id);
  bool finished = false;
  do {
    if (!worker.protocol.failed()) run_once(id, worker);
    finished = worker.begun && std::all_of(worker.entries.begin(), worker.entries.end(), [&](MessageId entry) {
                 return worker.had.contains(entry) || worker.dropped.contains(entry);
               });
  } while (worker.protocol.run_ended(finished));
  act(id);
}

/// Runs the recv nodes that are ready: every entry from which they can be reached has its gradients or was dropped.
void PassSimulation::run_once(WorkerId id, Worker& worker) {
  PassProtocol& protocol = worker.protocol;
  if (!worker.begun) {
    worker.begun = true;
    for (const auto& [message, one] : graph_) {
      if (one.sender == id && (!protocol.resolved() || protocol.is_marked(message))) worker.entries.insert(message);
    }
  }
  for (const MessageId message : std::exchange(worker.fed, {})) {
    if (!worker.entries.contains(message))
      throw std::logic_error("PassSimulation: received a gradient for a message that is not an entry");
    worker.had.insert(message);
  }
  if (protocol.resolved()) {
    for (const MessageId entry : worker.entries) {
      if (!worker.had.contains(entry) && !protocol.is_marked(entry)) worker.dropped.insert(entry);
    }
  }
  for (const auto& [message, one] : graph_) {
    if (one.receiver != id || run_.contains(message)) continue;
    bool ready = true, reached = one.used_by_root;
    for (const MessageId user : one.users) {
      reached |= worker.had.contains(user);
      ready &= !worker.entries.contains(user) || worker.had.contains(user) || worker.dropped.contains(user);
    }
    if (!ready || !reached) continue;
    run_.insert(message);
    if (!protocol.sending(one.sender)) return;
    gradients_.insert(message);
    post({.kind = Event::gradient,
          .from = id,
          .to = one.sender,
          .messages = {message},
          .resolved = protocol.resolved(),
          .token = token_of(id)});
  }
}

/// Returns the recv nodes behind send nodes or roots that no walk of this worker has reached before.
std::vector<RemoteEdge> PassSimulation::behind(WorkerId id, const std::vector<MessageId>& sends, bool roots) {
  std::vector<RemoteEdge> reached;
  for (const auto& [message, one] : graph_) {
    if (one.receiver != id) continue;
    const bool found =
        (roots && one.used_by_root) || std::any_of(one.users.begin(), one.users.end(), [&](MessageId user) {
          return std::find(sends.begin(), sends.end(), user) != sends.end();
        });
    if (found && walked_[id].insert(message).second) reached.push_back({one.sender, message});
  }
  return reached;
}

// ---- actions

void PassSimulation::post(Event event) {
  ++counts_[event.kind];
  const bool waits =
      std::any_of(events_.begin(), events_.end(), [&](const Event& one) { return comes_after(event, one); });
  (waits ? behind_ : events_).push_back(std::move(event));
}

PassToken PassSimulation::token_of(WorkerId sender) {
  senders_.push_back(sender);
  return senders_.size() - 1;
}

void PassSimulation::act(WorkerId id) {
  for (;;) {
    const std::vector<PassAction> actions = workers_.at(id).protocol.take();
    if (actions.empty()) return;
    for (const PassAction& action : actions) carry_out(id, action);
  }
}

void PassSimulation::carry_out(WorkerId id, const PassAction& action) {
  using namespace pass_action;
  Worker& worker = workers_.at(id);
  std::ostringstream line;
  line << "  rank " << id << ": ";
  const auto carry_out = tendril::detail::Overloaded{
      [&](const Answer& one) {
        write_reports(line << "answer #" << one.message, one.reports);
        post({.kind = Event::answer, .from = id, .to = senders_.at(one.message), .reports = one.reports});
      },
      [&](const Refuse& one) {
        line << "refuse #" << one.message;
        post({.kind = Event::answer, .from = id, .to = senders_.at(one.message), .refused = true});
      },
      [&](const AnswerOver& one) {
        line << "answer over #" << one.message;
        post({.kind = Event::over_answer, .from = id, .to = senders_.at(one.message)});
      },
      [&](const SendMark& one) {
        write_messages(line << "send mark to rank " << one.to << ':', one.messages);
        post({.kind = Event::mark, .from = id, .to = one.to, .messages = one.messages, .token = token_of(id)});
      },
      [&](const SendResolve& one) {
        line << "send resolve to rank " << one.to;
        post({.kind = Event::resolve, .from = id, .to = one.to, .token = token_of(id)});
      },
      [&](const SendOver& one) {
        line << "send over to rank " << one.to;
        post({.kind = Event::over, .from = id, .to = one.to, .token = token_of(id)});
      },
      [&](const Walk& one) {
        write_messages(line << "walk from", one.sends);
        worker.protocol.walked(behind(id, one.sends, false));
      },
      [&](WalkRoots) {
        line << "walk from the roots";
        worker.protocol.walked(behind(id, {}, true));
      },
      [&](RunGraph) {
        line << "run the graph";
        post({.kind = Event::run, .to = id});
      },
      [&](End) {
        line << "end";
        forget(id);
      },
      [&](Finish) {
        line << "finish";
        finished_ = true;
      }};
  std::visit(carry_out, action);
  transcript_.push_back(line.str());
}

/// A worker that has ended remembers only whether the pass failed. If it did, the worker refuses late messages.
void PassSimulation::forget(WorkerId id) {
  Worker& worker = workers_.at(id);
  worker.here = false;
  if (id == options_.root) return;
  for (const auto& [message, one] : graph_) {
    if (one.sender == id) ended_.insert_or_assign(message, send_state(message));
  }
  const bool failed = worker.protocol.failed();
  Worker next = make(id, !failed, worker.protocol.reports_made());
  if (failed) next.protocol.fail();
  (void)next.protocol.take();
  workers_.erase(id);
  workers_.emplace(id, std::move(next));
}

// ---- the messages of a recorded graph

namespace {

/// Returns the messages of the recv nodes behind these nodes.
std::set<MessageId> received_behind(const RecordedPart& part, std::vector<uint32_t> stack) {
  std::set<MessageId> reached;
  std::vector<bool> seen(part.nodes.size());
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const RecordedNode& node = part.nodes[at];
    if (node.kind == RecordedNode::Kind::recv) reached.insert(node.message);
    stack.insert(stack.end(), node.next.begin(), node.next.end());
  }
  return reached;
}

}  // namespace

SimulatedGraph messages_of(const RecordedGraph& graph) {
  SimulatedGraph all;
  for (const RecordedPart& part : graph.parts) {
    for (const RecordedNode& node : part.nodes) {
      if (node.kind == RecordedNode::Kind::send) all[node.message] = {.sender = part.rank, .receiver = node.peer};
    }
  }
  for (const RecordedPart& part : graph.parts) {
    std::vector<uint32_t> roots;
    for (uint32_t i = 0; i < part.nodes.size(); ++i) {
      const RecordedNode& node = part.nodes[i];
      if (node.root) roots.push_back(i);
      if (node.kind != RecordedNode::Kind::send) continue;
      for (const MessageId used : received_behind(part, {i})) {
        if (const auto found = all.find(used); found != all.end() && found->second.receiver == part.rank)
          found->second.users.push_back(node.message);
      }
    }
    for (const MessageId used : received_behind(part, roots)) {
      if (const auto found = all.find(used); found != all.end() && found->second.receiver == part.rank)
        found->second.used_by_root = part.rank == graph.root;
    }
  }
  return all;
}

}  // namespace examples
