// Task 3.2: when a worker has finished its part of a backward pass. pass_protocol.cpp, PassProtocol::settle.
// docs/distributed_autograd.md describes the algorithm.
#include <tendril/dist/autograd/pass_protocol.h>

#include <variant>
#include <vector>

#include "course.h"

using course::check;
using course::same;
using tendril::dist::autograd::PassProtocol;
using tendril::dist::autograd::pass_action::Answer;
using tendril::dist::autograd::pass_action::Finish;

namespace {

/// Returns the pending actions of one kind, in order.
template <class Action>
std::vector<Action> taken(PassProtocol& protocol) {
  std::vector<Action> found;
  for (const auto& action : protocol.take())
    if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
  return found;
}
std::size_t answers(PassProtocol& protocol) { return taken<Answer>(protocol).size(); }
/// Worker 1 of a backward pass that worker 0 started.
PassProtocol worker(bool fast) {
  PassProtocol::Options options;
  options.self = 1;
  options.fast = fast;
  return PassProtocol(options);
}

}  // namespace

int main() {
  for (const bool fast : {false, true}) {
    const std::string mode = fast ? "FAST: " : "SMART: ";
    check(mode + "no answer while the graph runs, one answer afterwards", [&] {
      PassProtocol protocol = worker(fast);
      protocol.gradient(7, 1, false);
      const std::string early = same(answers(protocol), 0u);
      protocol.run_ended(true);
      return course::all({early, same(answers(protocol), 1u)});
    });
    check(mode + "no answer before its sent gradients are answered", [&] {
      PassProtocol protocol = worker(fast);
      protocol.gradient(7, 1, false);
      protocol.sending(2);
      protocol.run_ended(true);
      const std::string early = same(answers(protocol), 0u);
      protocol.answered({});
      return course::all({early, same(answers(protocol), 1u)});
    });
    check(mode + "the message that engaged the worker is answered last, others immediately", [&] {
      PassProtocol protocol = worker(fast);
      protocol.gradient(7, 1, false);
      protocol.gradient(8, 2, false);
      const auto second = taken<Answer>(protocol);
      if (second.size() != 1) return same(second.size(), 1u);
      const bool again = protocol.run_ended(true);
      if (!again) return std::string("expected another run for a gradient that arrived during the first");
      protocol.run_ended(true);
      const auto first = taken<Answer>(protocol);
      return first.size() == 1 ? same(second[0].message * 10 + first[0].message, 87u) : same(first.size(), 1u);
    });
  }
  check("no answer during the walk that a mark started", [] {
    PassProtocol protocol = worker(false);
    protocol.mark(7, {3});
    const std::string early = same(answers(protocol), 0u);
    protocol.walked({});
    return course::all({early, same(answers(protocol), 1u)});
  });
  check("a failed root finishes only after every notified worker has answered", [] {
    PassProtocol root({});
    root.start();
    root.sending(2);
    root.run_ended(true);
    root.fail();
    root.answered({});
    const std::string early = same(taken<Finish>(root).size(), 0u);
    root.over_answered();
    return course::all({early, same(taken<Finish>(root).size(), 1u)});
  });
  check("SMART answers although its graph waits for gradients, and reports that", [] {
    PassProtocol protocol = worker(false);
    protocol.gradient(7, 1, false);
    protocol.run_ended(false);
    const auto answered = taken<Answer>(protocol);
    return answered.size() == 1 && answered[0].reports.size() == 1 ? same(answered[0].reports[0].unfinished, true)
                                                                   : std::string("expected an answer with a report");
  });
  check("FAST waits for every gradient that its graph needs", [] {
    PassProtocol protocol = worker(true);
    protocol.gradient(7, 1, false);
    protocol.run_ended(false);  // waits for the gradient of message 2
    const std::string early = same(answers(protocol), 0u);
    protocol.gradient(8, 2, false);
    protocol.run_ended(true);
    return course::all({early, same(answers(protocol), 2u)});
  });
  return course::result();
}
