#include "tendril/dist/autograd/pass_action.h"

#include <ostream>

namespace tendril::dist::autograd {

namespace {

/// A message as people read it: rank 2's seventh is 2.7.
struct Readable {
  MessageId message;
  friend std::ostream& operator<<(std::ostream& out, Readable one) {
    return out << worker_of(one.message) << '.' << number_of(one.message);
  }
};

std::ostream& write(std::ostream& out, const std::vector<MessageId>& messages) {
  for (const MessageId message : messages) out << ' ' << Readable{message};
  return out;
}

struct Writer {
  std::ostream& out;

  void operator()(const pass_action::Answer& one) const {
    out << "answer #" << one.message;
    for (const WorkerReport& report : one.reports) {
      out << ", rank " << report.worker << (report.unfinished ? " waits" : " is done");
    }
  }
  void operator()(const pass_action::Refuse& one) const { out << "refuse #" << one.message; }
  void operator()(const pass_action::AnswerOver& one) const { out << "answer over #" << one.message; }
  void operator()(const pass_action::SendMark& one) const {
    write(out << "send mark to rank " << one.to << ':', one.messages);
  }
  void operator()(const pass_action::SendResolve& one) const { out << "send resolve to rank " << one.to; }
  void operator()(const pass_action::SendOver& one) const { out << "send over to rank " << one.to; }
  void operator()(const pass_action::Walk& one) const { write(out << "walk from", one.sends); }
  void operator()(pass_action::WalkRoots) const { out << "walk from the roots"; }
  void operator()(pass_action::DropUnmarked) const { out << "drop what is not marked"; }
  void operator()(pass_action::RunGraph) const { out << "run the graph"; }
  void operator()(pass_action::End) const { out << "end"; }
  void operator()(pass_action::Finish) const { out << "finish"; }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const PassAction& action) {
  std::visit(Writer{out}, action);
  return out;
}

}  // namespace tendril::dist::autograd
