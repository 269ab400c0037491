// Task 3.3: which messages a backward reaches. pass_protocol.cpp, PassProtocol::mark; docs/distributed_autograd.md.
#include <tendril/dist/autograd/pass_protocol.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "course.h"

using course::check;
using course::same;
using tendril::dist::autograd::MessageId;
using tendril::dist::autograd::PassProtocol;
namespace pass_action = tendril::dist::autograd::pass_action;

namespace {

PassProtocol worker() {
  PassProtocol::Options options;
  options.self = 1;
  return PassProtocol(options);
}
/// What it wants done of one kind, in order.
template <class Action>
std::vector<Action> taken(PassProtocol& protocol) {
  std::vector<Action> found;
  for (const auto& action : protocol.take())
    if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
  return found;
}
std::size_t answers(PassProtocol& protocol) { return taken<pass_action::Answer>(protocol).size(); }
std::string list(std::vector<MessageId> messages) {
  std::sort(messages.begin(), messages.end());
  std::string text;
  for (const MessageId message : messages) text += std::to_string(message) + " ";
  return text;
}

}  // namespace

int main() {
  check("what is marked is walked from", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3, 4});
    const auto walks = taken<pass_action::Walk>(protocol);
    return walks.size() == 1 ? same(list(walks[0].sends), std::string("3 4 ")) : same(walks.size(), 1u);
  });
  check("it is marked, and nothing else", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3, 4});
    return same(protocol.is_marked(3) && protocol.is_marked(4) && !protocol.is_marked(5), true);
  });
  check("a second mark of the same message starts no second walk", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3, 4});
    protocol.take();
    protocol.mark(8, {3, 5, 5});
    const auto walks = taken<pass_action::Walk>(protocol);
    return walks.size() == 1 ? same(list(walks[0].sends), std::string("5 ")) : same(walks.size(), 1u);
  });
  check("no answer before the walk is over", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    const std::string early = same(answers(protocol), 0u);
    protocol.walked({});
    return course::all({early, same(answers(protocol), 1u)});
  });
  check("two walks: it answers after both", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    protocol.mark(8, {4});
    protocol.take();  // 8 is answered at once: the worker takes part already
    protocol.walked({});
    const std::string early = same(answers(protocol), 0u);
    protocol.walked({});
    return course::all({early, same(answers(protocol), 1u)});
  });
  check("marks that bring nothing new wait for no walk", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    protocol.walked({});
    protocol.take();
    protocol.mark(8, {3});
    return same(answers(protocol), 1u);
  });
  check("its part ends when every marked message has had its gradient (marked_unfed_)", [] {
    PassProtocol protocol = worker();
    protocol.gradient(6, 2, false);
    protocol.run_ended(false);  // its graph waits for more
    protocol.mark(7, {2, 3});   // 2 has had its
    protocol.walked({});
    protocol.resolve(8);
    protocol.run_ended(true);
    const std::string early = same(taken<pass_action::End>(protocol).size(), 0u);
    protocol.gradient(9, 3, true);
    protocol.run_ended(true);
    return course::all({early, same(taken<pass_action::End>(protocol).size(), 1u)});
  });
  check("what the walk reaches is marked at its owners, one message each", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    protocol.take();
    protocol.walked({{2, 10}, {0, 11}, {2, 12}});
    const auto marks = taken<pass_action::SendMark>(protocol);
    if (marks.size() != 2) return same(marks.size(), 2u);
    return same(list(marks[0].messages) + list(marks[1].messages), std::string("11 10 12 "));
  });
  return course::result();
}
