#include "tendril/dist/autograd/detail/pass.h"

#include <algorithm>
#include <chrono>
#include <shared_mutex>

#include "tendril/dist/detail/overloaded.h"
#include "tendril/rpc/error.h"

namespace tendril::dist::autograd::detail {

namespace {

std::exception_ptr too_late() {
  return std::make_exception_ptr(rpc::TimeoutError(
      "backward: not done in time; a worker takes longer, or (Mode::fast) a message was recorded that the roots do not "
      "depend on"));
}

bool is_timeout(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const rpc::TimeoutError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// How long a pass that has failed waits for another worker to say that it has heard; past the caller's own deadline it
/// waits but shortly.
constexpr std::chrono::milliseconds kOverTimeout{10'000}, kLateOverTimeout{500};

thread_local Pass* running_pass = nullptr;

class RunningScope {
 public:
  explicit RunningScope(Pass* pass) noexcept : previous_(std::exchange(running_pass, pass)) {}
  ~RunningScope() { running_pass = previous_; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  Pass* previous_;
};

}  // namespace

Pass* Pass::running() noexcept { return running_pass; }

Pass::Pass(const Options& options, std::shared_ptr<ContextState> context, std::shared_ptr<Transmitter> transmitter)
    : header_(options.header),
      deadline_(options.deadline),
      context_(std::move(context)),
      transmitter_(std::move(transmitter)),
      is_root_(worker_of(header_.pass) == transmitter_->self().id),
      protocol_({.self = transmitter_->self().id,
                 .root = worker_of(header_.pass),
                 .fast = header_.fast,
                 .mark_first = options.mark_first,
                 .all_fed = options.all_fed,
                 .reports_made = context_->reports_made()}),
      graph_(header_, *context_) {}

Pass::~Pass() = default;

// ---- the root

void Pass::run_from(const std::vector<Tensor>& roots) {
  graph_.set_roots(roots);
  Lock lock(mutex_);
  protocol_.start();
  act(lock);
  for (;;) {
    lock.lock();
    if (std::exchange(walk_roots_, false)) {
      lock.unlock();
      walk_roots();
    } else if (std::exchange(work_, false)) {
      lock.unlock();
      while (run_once()) {
      }
    } else if (done_) {
      break;
    } else {
      wake_ = Ref<rpc::FutureState<void>>(new rpc::FutureState<void>(&transmitter_->executor()));
      const Ref<rpc::FutureState<void>> wake = wake_;
      const bool in_time = !protocol_.failed();
      lock.unlock();
      // Once it has failed: until all who take part have heard, each call of which has its own deadline.
      if (wake->wait_until(in_time ? deadline_ : rpc::Clock::time_point::max())) continue;
      fail(too_late());
    }
  }
  if (protocol_.was_stuck()) context_->set_stuck();
  if (!protocol_.failed()) return;
  std::rethrow_exception(error_);
}

// ---- messages

PassToken Pass::keep(rpc::InboundCall call) {
  const PassToken token = next_token_++;
  calls_.emplace(token, std::move(call));
  return token;
}

void Pass::gradient(rpc::InboundCall call, GradientMessage message) {
  const rpc::WorkerId from = call.from().id;
  Lock lock(mutex_);
  const PassToken token = keep(std::move(call));
  if (!protocol_.gradient(token, message.message, message.header.resolved)) {
    rpc::InboundCall again = std::move(calls_.at(token));
    calls_.erase(token);
    lock.unlock();
    return again.reply(
        write_error(std::make_exception_ptr(AutogradError("backward: the same message got gradients twice")),
                    transmitter_->self().name));
  }
  if (!protocol_.failed()) fed_.push_back({message.message, from, std::move(message.gradients)});
  act(lock);
}

void Pass::mark(rpc::InboundCall call, const std::vector<MessageId>& messages) {
  Lock lock(mutex_);
  protocol_.mark(keep(std::move(call)), messages);
  act(lock);
}

void Pass::resolve(rpc::InboundCall call) {
  Lock lock(mutex_);
  protocol_.resolve(keep(std::move(call)));
  act(lock);
}

void Pass::over(rpc::InboundCall call) {
  const rpc::WorkerId from = call.from().id;
  Lock lock(mutex_);
  if (!error_)
    error_ = std::make_exception_ptr(AutogradError("backward: cancelled by worker '" + call.from().name + "'"));
  protocol_.over(keep(std::move(call)), from);
  act(lock);
}

// ---- failing

void Pass::fail_locked(const std::exception_ptr& error) {
  if (!error_) error_ = error;
  protocol_.fail();
}

void Pass::fail(const std::exception_ptr& error) {
  Lock lock(mutex_);
  fail_locked(error);
  act(lock);
}

void Pass::abandon() {
  Lock lock(mutex_);
  abandoned_ = true;
  act(lock);
}

bool Pass::failed() const {
  const std::lock_guard lock(mutex_);
  return protocol_.failed();
}

void Pass::when_ended(std::function<void()> f) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) return at_end_.push_back(std::move(f));
  }
  f();
}

// ---- what the protocol asks for

/// What was taken out of a Pass with its lock, for actions that are carried out without it.
struct Pass::Taken {
  PassHeader header;
  std::vector<std::pair<rpc::InboundCall, rpc::Message>> replies = {};  // in the order of their actions
  std::size_t next_reply = 0;
  bool ends = false, finished = false;
  uint64_t reports_made = 0;
  std::unique_ptr<tendril::autograd::GraphTask> task = {};  // of a part that ends
  std::vector<std::function<void()>> at_end = {};
  Ref<rpc::FutureState<void>> wake = {};
};

void Pass::act(Lock& lock) {
  std::vector<PassAction> actions = protocol_.take();
  if (protocol_.failed() && !error_) {
    error_ = std::make_exception_ptr(AutogradError(
        "backward: it came to rest with gradients missing; a worker has recorded into the context meanwhile"));
  }
  if (abandoned_ && protocol_.failed() && protocol_.idle() && !is_root_) {
    actions.insert(actions.begin(), pass_action::End{});
  }
  Taken taken{.header = header_};
  taken.header.resolved = protocol_.resolved();
  for (const PassAction& action : actions) take(action, taken);
  if (work_ || walk_roots_) taken.wake = std::move(wake_);
  lock.unlock();
  const auto alive = shared_from_this();
  for (const PassAction& action : actions) carry_out(action, taken);
  if (taken.wake) taken.wake->try_set_value();
}

/// With the lock.
void Pass::take(const PassAction& action, Taken& taken) {
  const auto reply = [&](PassToken token, rpc::Message message) {
    auto call = calls_.extract(token);  // there: the protocol answers each once
    taken.replies.emplace_back(std::move(call.mapped()), std::move(message));
  };
  std::visit(
      dist::detail::Overloaded{
          [&](const pass_action::Answer& one) { reply(one.message, write_answer(one.reports)); },
          [&](const pass_action::Refuse& one) { reply(one.message, write_error(error_, transmitter_->self().name)); },
          [&](const pass_action::AnswerOver& one) { reply(one.message, write_heard(over_incomplete_)); },
          [&](pass_action::DropUnmarked) { drop_unmarked_ = true; },
          [&](pass_action::WalkRoots) { walk_roots_ = true; }, [&](pass_action::RunGraph) { work_ = is_root_; },
          [&](pass_action::End) {
            if (std::exchange(ended_, true)) return;
            taken.ends = true;
            taken.finished = !protocol_.failed();
            taken.reports_made = protocol_.reports_made();
            taken.task = graph_.free();
            taken.at_end.swap(at_end_);
          },
          [](const auto&) {}},
      action);
}

/// Without the lock, in the protocol's order: who is answered after the end may look at this worker's counters, or
/// start the next pass.
void Pass::carry_out(const PassAction& action, Taken& taken) {
  const auto reply = [&] {
    auto& [call, message] = taken.replies[taken.next_reply++];
    call.reply(std::move(message));
  };
  std::visit(
      dist::detail::Overloaded{
          [&](const pass_action::Answer&) { reply(); }, [&](const pass_action::Refuse&) { reply(); },
          [&](const pass_action::AnswerOver&) { reply(); },
          [&](const pass_action::SendMark& one) { call_and_settle(one.to, write_mark(taken.header, one.messages)); },
          [&](const pass_action::SendResolve& one) { call_and_settle(one.to, write_resolve(taken.header)); },
          [&](const pass_action::SendOver& one) { tell_over(one.to); },
          [&](const pass_action::Walk& one) { walk_sends(one.sends); },
          [&](pass_action::RunGraph) {
            if (!is_root_) request_run();
          },
          [&](pass_action::End) { end(taken); },
          [&](pass_action::Finish) {
            const std::lock_guard lock(mutex_);
            done_ = true;
            if (!taken.wake) taken.wake = std::move(wake_);
          },
          [](const auto&) {}},
      action);
}

void Pass::end(Taken& taken) {
  if (!std::exchange(taken.ends, false)) return;
  taken.task.reset();
  context_->end_pass(*this, taken.finished, taken.reports_made);
  for (const auto& f : taken.at_end) f();
}

void Pass::call_and_settle(rpc::WorkerId to, rpc::Message request) {
  transmitter_->call(to, std::move(request), deadline_,
                     [pass = shared_from_this()](rpc::Message* reply, const std::exception_ptr& error) {
                       pass->answered(reply, error);
                     });
}

void Pass::answered(rpc::Message* reply, const std::exception_ptr& error) {
  Answer answer;
  if (error) {
    answer.error = error;
  } else {
    try {
      answer = read_answer(*reply);
    } catch (...) {
      answer.error = std::current_exception();
    }
  }
  // All share one deadline; which of them noticed first says nothing.
  if (answer.error && is_root_ && is_timeout(answer.error)) answer.error = too_late();
  Lock lock(mutex_);
  if (answer.error) fail_locked(answer.error);
  protocol_.answered(answer.reports);
  act(lock);
}

void Pass::tell_over(rpc::WorkerId to) {
  const auto now = rpc::Clock::now();
  const auto deadline = std::min(now + kOverTimeout, std::max(deadline_, now + kLateOverTimeout));
  transmitter_->call(to, write_over(header_), deadline,
                     [pass = shared_from_this()](rpc::Message* reply, const std::exception_ptr& error) {
                       pass->over_answered(reply, error);
                     });
}

/// A worker that is gone cannot tell those that it had engaged: then the root tells everybody.
void Pass::over_answered(rpc::Message* reply, const std::exception_ptr& error) {
  bool incomplete = false;
  try {
    if (error) std::rethrow_exception(error);
    incomplete = read_heard(*reply);
  } catch (const rpc::PeerLostError&) {
    incomplete = true;
  } catch (...) {  // it takes too long, or this agent is closing
  }
  std::vector<rpc::WorkerInfo> everyone;
  if (incomplete && is_root_) everyone = transmitter_->peers();
  Lock lock(mutex_);
  over_incomplete_ |= incomplete;
  if (told_everyone_) everyone.clear();
  told_everyone_ |= !everyone.empty();
  protocol_.telling_over(everyone.size());
  lock.unlock();
  for (const rpc::WorkerInfo& worker : everyone) tell_over(worker.id);
  lock.lock();
  protocol_.over_answered();
  act(lock);
}

// ---- running the graph

void Pass::request_run() {
  rpc::post(transmitter_->executor(), [pass = shared_from_this()] {
    while (pass->run_once()) {
    }
  });
}

bool Pass::run_once() {
  std::vector<Fed> fed;
  bool drop = false;
  Lock lock(mutex_);
  fed.swap(fed_);
  drop = std::exchange(drop_unmarked_, false);
  const bool resolved = protocol_.resolved();
  std::exception_ptr error = protocol_.failed() ? error_ : nullptr;
  lock.unlock();
  bool finished = false;
  if (!error) {
    try {
      const RunningScope scope(this);
      std::shared_lock<std::shared_mutex> reading;
      Census& census = *context_->census();
      if (census.hogwild.load(std::memory_order_relaxed)) {
        reading = rpc::blocking([&] { return std::shared_lock(census.parameters); });
      }
      const rpc::CallContextScope no_context{rpc::CallContext{}};
      if (!graph_.begun()) graph_.begin([&](MessageId message) { return !resolved || is_marked(message); });
      for (Fed& one : fed) graph_.feed(one);
      if (drop) graph_.drop([&](MessageId message) { return is_marked(message); });
      finished = graph_.run();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) graph_.free();  // gives the nodes back
  lock.lock();
  if (error) fail_locked(error);
  const bool again = protocol_.run_ended(finished);
  act(lock);
  return again;
}

bool Pass::is_marked(MessageId message) const {
  const std::lock_guard lock(mutex_);
  return protocol_.is_marked(message);
}

void Pass::send(const RecvNode& node, std::span<Tensor> gradients) {
  TENDRIL_CHECK_AS(AutogradError, node.context() == header_.context, "backward of context ", worker_of(header_.context),
                   ".", number_of(header_.context), ": the graph holds a tensor that was received in another context, ",
                   worker_of(node.context()), ".", number_of(node.context()));
  PassHeader header = header_;
  {
    Lock lock(mutex_);
    if (!protocol_.sending(node.from())) std::rethrow_exception(error_);
    header.resolved = protocol_.resolved();
  }
  call_and_settle(node.from(), write_gradient(header, node.message(), gradients, node.origins()));
}

// ---- marking

void Pass::walk_sends(const std::vector<MessageId>& messages) {
  std::vector<RemoteEdge> reached;
  std::exception_ptr error;
  try {
    reached = graph_.walk_sends(messages);
  } catch (const AutogradError&) {
    error = std::current_exception();
  }
  walked(reached, error);
}

void Pass::walk_roots() { walked(graph_.walk_roots(), nullptr); }

void Pass::walked(const std::vector<RemoteEdge>& reached, const std::exception_ptr& error) {
  Lock lock(mutex_);
  if (error) fail_locked(error);
  protocol_.walked(reached);
  act(lock);
}

}  // namespace tendril::dist::autograd::detail
