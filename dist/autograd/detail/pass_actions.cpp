// What a pass does of what its protocol asks for, and what it does with the answers.
#include <algorithm>
#include <chrono>
#include <string>

#include "tendril/dist/autograd/detail/handlers.h"
#include "tendril/dist/autograd/detail/pass.h"
#include "tendril/dist/detail/overloaded.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/allocations_must_succeed.h"

namespace tendril::dist::autograd::detail {

namespace {

bool is_timeout(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const rpc::TimeoutError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// An error of rpc that names the function that the program called, backward, instead of the request.
std::exception_ptr named_backward(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const rpc::PeerLostError& lost) {
    const std::string text = lost.what();
    for (const RequestKind kind : {RequestKind::gradient, RequestKind::mark, RequestKind::resolve}) {
      const std::string request = "call of " + rpc::name_of_function(function_of(kind));
      if (!text.starts_with(request)) continue;
      return std::make_exception_ptr(rpc::PeerLostError("backward" + text.substr(request.size()), lost.may_have_run()));
    }
  } catch (...) {  // names no request
  }
  return error;
}

/// How long a pass that has failed waits for another worker to say that it has heard; past the caller's own deadline it
/// waits but shortly.
constexpr std::chrono::milliseconds kOverTimeout{10'000}, kLateOverTimeout{500};

}  // namespace

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
  const rpc::detail::AllocationsMustSucceed protocol;
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
  trace_.ended(!taken.finished);
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
    answer.error = named_backward(error);
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

}  // namespace tendril::dist::autograd::detail
