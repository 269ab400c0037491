// The protocol of a backward, without graphs, sockets or clocks: whatever order messages come in, every marked send
// node gets exactly one gradient message, no other gets any, and nobody is left waiting.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tendril/dist/autograd/pass_protocol.h"

BOOST_AUTO_TEST_SUITE(protocol)

using namespace tendril;
using dist::autograd::MessageId;
using dist::autograd::PassProtocol;
using dist::autograd::RemoteEdge;
using dist::autograd::WorkerReport;
using rpc::WorkerId;

namespace {

/// A recorded message: its send node is with `sender`, its recv node with `receiver`. The recv node waits for gradients
/// from the send nodes in `users` (of the same worker), and from the roots.
struct Recorded {
  WorkerId sender = 0, receiver = 0;
  std::vector<MessageId> users;
  bool used_by_root = false;
};
using Graph = std::map<MessageId, Recorded>;

std::set<MessageId> marked(const Graph& graph) {
  std::set<MessageId> found;
  for (auto at = graph.rbegin(); at != graph.rend(); ++at) {  // users are newer
    const Recorded& one = at->second;
    const bool used = std::any_of(one.users.begin(), one.users.end(), [&](MessageId m) { return found.contains(m); });
    if (used || one.used_by_root) found.insert(at->first);
  }
  return found;
}

/// One worker's graph task.
struct Task {
  std::set<MessageId> entries, fed, dropped, run;
};

struct Letter {
  enum Kind { gradient, mark, resolve, over, answer, over_answer };
  Kind kind = gradient;
  WorkerId from = 0, to = 0;
  MessageId message = 0;
  std::vector<MessageId> messages;
  bool resolved = false;
  PassProtocol::Token token = 0;  // names the letter that this one answers, or that is to be answered
  std::vector<WorkerReport> reports;
  bool refused = false;
};

class Simulation {
 public:
  Simulation(Graph graph, int workers, uint64_t seed, bool fast, bool mark_first)
      : graph_(std::move(graph)), random_(seed), fast_(fast), mark_first_(mark_first) {
    for (WorkerId w = 0; w < workers; ++w) workers_.emplace(w, make(w, false, 0));
  }

  /// True if the root finished. `fail_at`: the event at which worker `failing` fails.
  bool run(std::optional<int> fail_at = {}, WorkerId failing = 0) {
    Worker& root = workers_.at(0);
    root.here = true;
    root.protocol.start();
    act(0);
    for (int event = 0; !done_ || !letters_.empty() || runs_pending(); ++event) {
      BOOST_REQUIRE(event < 100000);
      if (event == fail_at && workers_.at(failing).here) {
        workers_.at(failing).protocol.fail();
        act(failing);
      }
      std::vector<WorkerId> runnable;
      for (const auto& [id, worker] : workers_) {
        if (worker.wants_run) runnable.push_back(id);
      }
      const std::size_t choices = runnable.size() + letters_.size();
      if (choices == 0) return done_;
      const std::size_t chosen = random_() % choices;
      if (chosen < runnable.size()) {
        run_graph(runnable[chosen]);
      } else {
        const Letter letter = letters_[chosen - runnable.size()];
        letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(chosen - runnable.size()));
        deliver(letter);
      }
    }
    return done_;
  }

  bool failed() const { return workers_.at(0).protocol.failed(); }
  const std::multiset<MessageId>& gradients() const { return gradients_; }
  int sent(Letter::Kind kind) const { return counts_.contains(kind) ? counts_.at(kind) : 0; }
  bool somebody_waits() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w.second.here; });
  }

 private:
  struct Worker {
    PassProtocol protocol;
    std::optional<Task> task;
    std::vector<MessageId> fed;
    bool drop = false;
    bool wants_run = false;
    bool here = false;  // it takes part
  };

  Worker make(WorkerId id, bool all_fed, uint64_t reports) const {
    return {PassProtocol({.self = id,
                          .root = 0,
                          .fast = fast_,
                          .mark_first = mark_first_,
                          .all_fed = all_fed,
                          .reports_made = reports}),
            {},
            {},
            false,
            false,
            false};
  }
  bool runs_pending() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w.second.wants_run; });
  }

  void post(Letter letter) {
    ++counts_[letter.kind];
    letters_.push_back(std::move(letter));
  }
  PassProtocol::Token sent_by(WorkerId from) {
    senders_.push_back(from);
    return senders_.size() - 1;
  }

  void run_graph(WorkerId id) {
    Worker& worker = workers_.at(id);
    do {
      worker.wants_run = false;
      if (!worker.protocol.failed()) {
        step(id, worker);
      }
      bool finished = worker.task.has_value();
      if (worker.task) {
        for (const MessageId entry : worker.task->entries) {
          finished &= worker.task->fed.contains(entry) || worker.task->dropped.contains(entry);
        }
      }
      if (!worker.protocol.run_ended(finished)) break;
    } while (true);
    act(id);
  }

  void step(WorkerId id, Worker& worker) {
    if (!worker.task) {
      worker.task.emplace();
      for (const auto& [message, one] : graph_) {
        if (one.sender == id && (!worker.protocol.resolved() || worker.protocol.is_marked(message)))
          worker.task->entries.insert(message);
      }
    }
    Task& task = *worker.task;
    for (const MessageId message : std::exchange(worker.fed, {})) {
      BOOST_TEST(task.entries.contains(message));
      task.fed.insert(message);
    }
    if (std::exchange(worker.drop, false)) {
      for (const MessageId entry : task.entries) {
        if (!task.fed.contains(entry) && !worker.protocol.is_marked(entry)) task.dropped.insert(entry);
      }
    }
    for (auto at = graph_.rbegin(); at != graph_.rend(); ++at) {
      const auto& [message, one] = *at;
      if (one.receiver != id || task.run.contains(message)) continue;
      bool ready = true, reached = one.used_by_root && id == 0;
      for (const MessageId user : one.users) {
        reached |= task.fed.contains(user);
        ready &= !task.entries.contains(user) || task.fed.contains(user) || task.dropped.contains(user);
      }
      if (!ready || !reached) continue;
      task.run.insert(message);
      if (!worker.protocol.sending(one.sender)) return;
      gradients_.insert(message);
      post({.kind = Letter::gradient,
            .from = id,
            .to = one.sender,
            .message = message,
            .resolved = worker.protocol.resolved(),
            .token = sent_by(id)});
    }
  }

  std::vector<RemoteEdge> behind(WorkerId id, const std::vector<MessageId>& sends, bool roots) {
    std::vector<RemoteEdge> reached;
    for (const auto& [message, one] : graph_) {
      bool found = roots && one.used_by_root && one.receiver == id;
      for (const MessageId user : one.users) found |= std::find(sends.begin(), sends.end(), user) != sends.end();
      // Reached before by this worker's walk in this pass: not again.
      if (found && one.receiver == id && walked_[id].insert(message).second) reached.push_back({one.sender, message});
    }
    return reached;
  }

  void deliver(const Letter& letter) {
    Worker& worker = workers_.at(letter.to);
    switch (letter.kind) {
      case Letter::gradient:
        worker.here |= !worker.protocol.failed();
        BOOST_TEST(worker.protocol.gradient(letter.token, letter.message, letter.resolved));
        worker.fed.push_back(letter.message);
        break;
      case Letter::mark:
        worker.here |= !worker.protocol.failed();
        worker.protocol.mark(letter.token, letter.messages);
        break;
      case Letter::resolve:
        worker.here |= !worker.protocol.failed();
        worker.protocol.resolve(letter.token);
        break;
      case Letter::over:
        if (!worker.here) {  // what comes late is refused
          worker.protocol.fail();
          (void)worker.protocol.take();
          return post({.kind = Letter::over_answer, .from = letter.to, .to = letter.from});
        }
        worker.protocol.over(letter.token, letter.from);
        break;
      case Letter::answer:
        if (!worker.here) return;
        if (letter.refused) worker.protocol.fail();
        worker.protocol.answered(letter.reports);
        break;
      case Letter::over_answer:
        if (!worker.here) return;
        worker.protocol.over_answered();
        break;
    }
    act(letter.to);
  }

  void act(WorkerId id) {
    Worker& worker = workers_.at(id);
    for (;;) {
      const PassProtocol::Actions actions = worker.protocol.take();
      for (const auto& [token, reports] : actions.answers)
        post({.kind = Letter::answer, .from = id, .to = senders_.at(token), .reports = reports});
      for (const auto token : actions.refusals)
        post({.kind = Letter::answer, .from = id, .to = senders_.at(token), .refused = true});
      for (const auto token : actions.over_answers)
        post({.kind = Letter::over_answer, .from = id, .to = senders_.at(token)});
      for (const auto& [to, messages] : actions.marks)
        post({.kind = Letter::mark, .from = id, .to = to, .messages = messages, .token = sent_by(id)});
      for (const WorkerId to : actions.resolves)
        post({.kind = Letter::resolve, .from = id, .to = to, .token = sent_by(id)});
      for (const WorkerId to : actions.overs) post({.kind = Letter::over, .from = id, .to = to, .token = sent_by(id)});
      worker.drop |= actions.drop_unmarked;
      worker.wants_run |= actions.run;
      if (actions.done) done_ = true;
      if (actions.ended) {
        if (id == 0) {
          worker.here = false;
          return;
        }
        const bool failed = worker.protocol.failed();
        const uint64_t reports = worker.protocol.reports_made();
        workers_.erase(id);
        Worker& forgot = workers_.emplace(id, make(id, !failed, reports)).first->second;
        if (failed) forgot.protocol.fail();  // what comes late is refused
        (void)forgot.protocol.take();
        return;
      }
      if (actions.walk.empty() && !actions.walk_roots) return;
      worker.protocol.walked(behind(id, actions.walk, actions.walk_roots));
    }
  }

  const Graph graph_;
  std::mt19937_64 random_;
  const bool fast_, mark_first_;
  std::map<WorkerId, Worker> workers_;
  std::vector<Letter> letters_;
  std::vector<WorkerId> senders_{-1};
  std::multiset<MessageId> gradients_;
  std::map<Letter::Kind, int> counts_;
  std::map<WorkerId, std::set<MessageId>> walked_;
  bool done_ = false;
};

Graph random_graph(uint64_t seed, int workers, double waste) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto chance = [&](double p) { return std::uniform_real_distribution<double>(0, 1)(random) < p; };
  Graph graph;
  const std::size_t count = 1 + below(14);
  for (MessageId m = 1; m <= count; ++m) {
    Recorded& one = graph[m];
    one.sender = static_cast<WorkerId>(below(static_cast<std::size_t>(workers)));
    one.receiver = static_cast<WorkerId>(below(static_cast<std::size_t>(workers)));
  }
  graph[count].receiver = 0;
  for (auto& [m, one] : graph) {
    if (chance(waste)) continue;
    for (auto later = graph.upper_bound(m); later != graph.end(); ++later) {
      if (later->second.sender == one.receiver && chance(0.5)) one.users.push_back(later->first);
    }
    one.used_by_root = one.receiver == 0 && chance(0.5);
  }
  return graph;
}

std::multiset<MessageId> once_each(const std::set<MessageId>& messages) { return {messages.begin(), messages.end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_marked_message_gets_one_gradient_whatever_order_things_happen_in) {
  int stuck = 0, straight = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const int workers = 1 + static_cast<int>(seed % 4);
    const Graph graph = random_graph(seed, workers, seed % 2 ? 0.3 : 0.0);
    Simulation simulation(graph, workers, seed, false, seed % 5 == 0);
    BOOST_REQUIRE_MESSAGE(simulation.run(), "seed " << seed << " does not end");
    BOOST_TEST(!simulation.failed(), "seed " << seed);
    BOOST_TEST(simulation.gradients() == once_each(marked(graph)), "seed " << seed);
    BOOST_TEST(!simulation.somebody_waits(), "seed " << seed);
    (simulation.sent(Letter::mark) > 0 ? stuck : straight) += 1;
  }
  BOOST_TEST(stuck > 500);
  BOOST_TEST(straight > 500);
}

BOOST_AUTO_TEST_CASE(a_graph_without_unused_messages_costs_one_message_and_one_answer_for_each_recorded_one) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Graph graph = random_graph(seed, 3, 0);
    const auto all = marked(graph);
    std::erase_if(graph, [&](const auto& one) { return !all.contains(one.first); });
    for (auto& [id, one] : graph) std::erase_if(one.users, [&](MessageId m) { return !all.contains(m); });
    for (const bool fast : {false, true}) {
      Simulation simulation(graph, 3, seed, fast, false);
      BOOST_REQUIRE(simulation.run());
      BOOST_TEST(simulation.gradients() == once_each(all));
      BOOST_TEST(simulation.sent(Letter::gradient) == static_cast<int>(graph.size()));
      BOOST_TEST(simulation.sent(Letter::answer) == static_cast<int>(graph.size()));
      BOOST_TEST(simulation.sent(Letter::mark) + simulation.sent(Letter::resolve) == 0);
      BOOST_TEST(!simulation.somebody_waits());
    }
  }
}

BOOST_AUTO_TEST_CASE(fast_comes_to_rest_without_an_end_where_a_message_is_unused) {
  Graph graph;
  graph[1] = {.sender = 1, .receiver = 0, .users = {}, .used_by_root = true};
  graph[2] = {.sender = 1, .receiver = 0, .users = {}, .used_by_root = false};
  Simulation fast(graph, 2, 1, true, false);
  BOOST_TEST(!fast.run());
  BOOST_TEST(fast.somebody_waits());
  Simulation smart(graph, 2, 1, false, false);
  BOOST_TEST(smart.run());
  BOOST_TEST(!smart.somebody_waits());
}

BOOST_AUTO_TEST_CASE(a_failure_at_any_point_ends_the_pass_on_every_worker) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const int workers = 2 + static_cast<int>(seed % 3);
    const Graph graph = random_graph(seed, workers, seed % 2 ? 0.3 : 0.0);
    for (int event = 0; event < 60; ++event) {
      Simulation simulation(graph, workers, seed, false, seed % 5 == 0);
      const auto failing =
          static_cast<WorkerId>((seed + static_cast<uint64_t>(event)) % static_cast<uint64_t>(workers));
      BOOST_REQUIRE_MESSAGE(simulation.run(event, failing), "seed " << seed << ", event " << event << ": no end");
      if (!simulation.failed()) continue;
      ++failures;
      BOOST_TEST(!simulation.somebody_waits(), "seed " << seed << ", event " << event);
    }
  }
  BOOST_TEST(failures > 1000);
}

BOOST_AUTO_TEST_SUITE_END()
