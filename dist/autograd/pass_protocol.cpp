#include "tendril/dist/autograd/pass_protocol.h"

#include <algorithm>

namespace tendril::dist::autograd {

using namespace pass_action;

// ---- engagement

/// An engaged worker answers further messages at once, because the answer to its parent covers the work that they
/// cause.
void PassProtocol::engage(PassToken token) {
  if (is_root() || engaged_) {
    out_.emplace_back(Answer{token});
    return;
  }
  engaged_ = true;
  parent_ = token;
}

/// Called after every event. Answers the parent, or advances on the root, once nothing is left to do or to wait for.
void PassProtocol::settle() {
  // task 3.2: return if something is left to do or to wait for; FAST also waits for gradients that are missing
  if (failed_ || running_ || walking_ > 0 || outstanding_ > 0) return;
  if (options_.fast && unfinished_) return;
  // end of task
  if (is_root()) return advance();
  if (!engaged_) return;
  reports_[options_.self] = {options_.self, ++reports_made_, unfinished_};
  std::vector<WorkerReport> reports;
  reports.reserve(reports_.size());
  for (const auto& [worker, report] : reports_) reports.push_back(report);
  reports_.clear();
  engaged_ = false;
  // No more messages can arrive once every reachable send node has had its gradients.
  if (!unfinished_ &&
      (stage_ == Stage::gradients ? marked_.empty() : stage_ == Stage::resolved && marked_pending_ == 0)) {
    end();
  }
  out_.emplace_back(Answer{parent_, std::move(reports)});
}

/// No worker is active and no message is in flight, so the root begins the next stage or ends the pass.
void PassProtocol::advance() {
  const bool missing =
      unfinished_ || std::any_of(reports_.begin(), reports_.end(), [](const auto& r) { return r.second.unfinished; });
  switch (stage_) {
    case Stage::gradients:
      if (missing) return begin_marking();
      break;
    case Stage::marking:
      stage_ = Stage::resolved;
      if (!options_.mark_first) {
        for (const auto& [worker, report] : reports_) {
          out_.emplace_back(SendResolve{worker});
          told(worker);
          ++outstanding_;
        }
      }
      return start_run();
    case Stage::resolved:
      // Every marked send node has had its gradients, so no graph waits, unless a worker recorded during the pass.
      if (missing) return fail();
      break;
  }
  end();
}

void PassProtocol::end() {
  if (std::exchange(ended_, true)) return;
  out_.emplace_back(End{});
  if (is_root()) out_.emplace_back(Finish{});
}

void PassProtocol::begin_marking() {
  was_stuck_ = true;
  stage_ = Stage::marking;
  ++walking_;
  out_.emplace_back(WalkRoots{});
}

void PassProtocol::start_run() {
  has_graph_ = true;
  if (running_) {
    run_again_ = true;
  } else {
    running_ = true;
    out_.emplace_back(RunGraph{});
  }
}

void PassProtocol::learn_resolved() {
  if (stage_ == Stage::resolved) return;
  stage_ = Stage::resolved;
  if (!has_graph_) return;
  start_run();
}

// ---- events

void PassProtocol::start() {
  if (options_.mark_first && !options_.fast) {
    begin_marking();
  } else {
    start_run();
  }
}

bool PassProtocol::gradient(PassToken token, MessageId message, bool resolved) {
  if (failed_) {
    out_.emplace_back(Refuse{token});
    return true;
  }
  if (!fed_.insert(message).second) return false;
  if (marked_.contains(message)) --marked_pending_;
  engage(token);
  if (resolved) learn_resolved();
  start_run();
  return true;
}

void PassProtocol::mark(PassToken token, const std::vector<MessageId>& messages) {
  if (failed_) {
    out_.emplace_back(Refuse{token});
    return;
  }
  engage(token);
  if (stage_ == Stage::gradients) stage_ = Stage::marking;
  // task 3.3: mark each message once (marked_, marked_pending_); one Walk (walking_) goes from those that are new, if
  // any
  std::vector<MessageId> news;
  for (const MessageId message : messages) {
    if (!marked_.insert(message).second) continue;
    if (!options_.all_received && !fed_.contains(message)) ++marked_pending_;
    news.push_back(message);
  }
  if (!news.empty()) {
    ++walking_;
    out_.emplace_back(Walk{std::move(news)});
  }
  // end of task
  settle();
}

void PassProtocol::walked(const std::vector<RemoteEdge>& reached) {
  --walking_;
  if (failed_) return;
  std::map<rpc::WorkerId, std::vector<MessageId>> by_worker;
  for (const RemoteEdge& edge : reached) by_worker[edge.worker].push_back(edge.message);
  for (auto& [worker, messages] : by_worker) {
    told(worker);
    ++outstanding_;
    out_.emplace_back(SendMark{worker, std::move(messages)});
  }
  settle();
}

void PassProtocol::resolve(PassToken token) {
  if (failed_) {
    out_.emplace_back(Refuse{token});
    return;
  }
  engage(token);
  learn_resolved();
  settle();
}

bool PassProtocol::run_ended(bool finished) {
  if (std::exchange(run_again_, false) && !failed_) return true;
  running_ = false;
  unfinished_ = !finished;
  if (failed_) {
    settle_over();
  } else {
    settle();
  }
  return false;
}

bool PassProtocol::sending(rpc::WorkerId to) {
  if (failed_) return false;
  told(to);
  ++outstanding_;
  return true;
}

void PassProtocol::answered(const std::vector<WorkerReport>& reports) {
  --outstanding_;
  for (const WorkerReport& report : reports) {
    if (report.worker == options_.self) continue;  // this worker's own state is newer
    WorkerReport& known = reports_[report.worker];
    if (report.number >= known.number) known = report;
    if (over_begun_) send_abort(report.worker);  // the worker that engaged it may have forgotten the pass
  }
  settle();
}

// ---- the end by an error

void PassProtocol::fail() {
  if (failed_) return;
  failed_ = true;
  if (engaged_) {
    engaged_ = false;
    out_.emplace_back(Refuse{parent_});
  }
  if (is_root()) begin_abort(options_.root);
  settle_over();
}

void PassProtocol::begin_abort(rpc::WorkerId except) {
  over_begun_ = true;
  abort_sent_ = {options_.root, except, options_.self};
  for (const rpc::WorkerId worker : contacted_) send_abort(worker);
  for (const auto& [worker, report] : reports_) send_abort(worker);
}

void PassProtocol::send_abort(rpc::WorkerId worker) {
  if (!abort_sent_.insert(worker).second) return;
  out_.emplace_back(SendOver{worker});
  ++overs_outstanding_;
}

void PassProtocol::over(PassToken token, rpc::WorkerId from) {
  fail();
  if (over_heard_) {
    over_others_.push_back(token);
  } else {
    over_heard_ = true;
    over_parent_ = token;
    if (!over_begun_) begin_abort(from);
  }
  settle_over();
}

void PassProtocol::sending_aborts(std::size_t more) { overs_outstanding_ += more; }

void PassProtocol::over_answered() {
  --overs_outstanding_;
  settle_over();
}

/// Answers the first over when all overs that this worker sent are answered, and further ones as soon as no thread runs
/// the graph. So two workers that send overs to each other do not deadlock.
void PassProtocol::settle_over() {
  if (!failed_ || running_) return;
  for (const PassToken token : over_others_) out_.emplace_back(AnswerOver{token});
  over_others_.clear();
  if (overs_outstanding_ > 0) return;
  if (is_root()) {
    end();
  } else if (over_parent_) {
    end();
    out_.emplace_back(AnswerOver{*std::exchange(over_parent_, std::nullopt)});
  }
}

}  // namespace tendril::dist::autograd
