// Task 3.3: the messages that a backward pass reaches. pass_protocol.cpp, PassProtocol::mark;
// docs/distributed_autograd.md.
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
/// Returns the pending actions of one kind, in order.
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
  check("a mark starts a walk from the marked messages", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3, 4});
    const auto walks = taken<pass_action::Walk>(protocol);
    return walks.size() == 1 ? same(list(walks[0].sends), std::string("3 4 ")) : same(walks.size(), 1u);
  });
  check("only the given messages are marked", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3, 4});
    return same(protocol.is_marked(3) && protocol.is_marked(4) && !protocol.is_marked(5), true);
  });
  check("marking a message again starts no second walk", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3, 4});
    protocol.take();
    protocol.mark(8, {3, 5, 5});
    const auto walks = taken<pass_action::Walk>(protocol);
    return walks.size() == 1 ? same(list(walks[0].sends), std::string("5 ")) : same(walks.size(), 1u);
  });
  check("no answer before the walk ends", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    const std::string early = same(answers(protocol), 0u);
    protocol.walked({});
    return course::all({early, same(answers(protocol), 1u)});
  });
  check("with two walks, the answer comes after both", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    protocol.mark(8, {4});
    protocol.take();  // 8 is answered immediately, because the worker is already engaged
    protocol.walked({});
    const std::string early = same(answers(protocol), 0u);
    protocol.walked({});
    return course::all({early, same(answers(protocol), 1u)});
  });
  check("a mark without new messages is answered without a walk", [] {
    PassProtocol protocol = worker();
    protocol.mark(7, {3});
    protocol.walked({});
    protocol.take();
    protocol.mark(8, {3});
    return same(answers(protocol), 1u);
  });
  check("the worker's part ends when every marked message has received its gradient (marked_pending_)", [] {
    PassProtocol protocol = worker();
    protocol.gradient(6, 2, false);
    protocol.run_ended(false);  // its graph waits for more gradients
    protocol.mark(7, {2, 3});   // 2 already has its gradient
    protocol.walked({});
    protocol.resolve(8);
    protocol.run_ended(true);
    const std::string early = same(taken<pass_action::End>(protocol).size(), 0u);
    protocol.gradient(9, 3, true);
    protocol.run_ended(true);
    return course::all({early, same(taken<pass_action::End>(protocol).size(), 1u)});
  });
  check("reached messages are marked at their owners, with one message per owner", [] {
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
