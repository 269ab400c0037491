// Carries out the actions of a pass's protocol, and handles the answers to its messages.
#include <algorithm>
#include <chrono>
#include <string>

#include "tendril/dist/autograd/detail/handlers.h"
#include "tendril/dist/autograd/detail/pass.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/allocations_must_succeed.h"
#include "tendril/tensor/detail/overloaded.h"

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

/// Returns an error that names `backward`, which the program called, instead of the request.
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
  } catch (...) {  // only PeerLostError names the request
  }
  return error;
}

/// How long a failed pass waits until another worker acknowledges the failure; the shorter time applies after the
/// deadline of backward.
constexpr std::chrono::milliseconds kOverTimeout{10'000}, kLateOverTimeout{500};

}  // namespace

/// The state that ends with a pass. It is moved out of the pass under its lock, and used without the lock.
struct Pass::Ending {
  bool finished = false;
  uint64_t reports_made = 0;
  std::unique_ptr<tendril::autograd::GraphTask> task = {};
};

void Pass::act(Lock& lock) {
  const rpc::detail::AllocationsMustSucceed protocol;
  std::vector<PassAction> actions = protocol_.take();
  if (protocol_.failed() && !error_) {
    error_ = std::make_exception_ptr(AutogradError(
        "backward: finished with gradients missing, because a worker recorded into the context during the pass"));
  }
  if (abandoned_ && protocol_.failed() && protocol_.idle() && !is_root_) {
    actions.insert(actions.begin(), pass_action::End{});
  }
  PassHeader header = header_;
  header.resolved = protocol_.resolved();
  const bool over_incomplete = over_incomplete_;
  std::optional<Ending> ending = take_ending(actions);
  lock.unlock();
  const auto alive = shared_from_this();
  const auto carry_out = tendril::detail::Overloaded{
      [&](const pass_action::Answer& one) { reply(one.message, write_answer(one.reports)); },
      // The error of a failed pass does not change, so reading it needs no lock.
      [&](const pass_action::Refuse& one) { reply(one.message, write_error(error_, transmitter_->self().name)); },
      [&](const pass_action::AnswerOver& one) { reply(one.message, write_acknowledgement(over_incomplete)); },
      [&](const pass_action::SendMark& one) { call_and_settle(one.to, write_mark(header, one.messages)); },
      [&](const pass_action::SendResolve& one) { call_and_settle(one.to, write_resolve(header)); },
      [&](const pass_action::SendOver& one) { send_abort(one.to); },
      [&](const pass_action::Walk& one) { walk_sends(one.sends); },
      [&](pass_action::WalkRoots) { notify_root(&Pass::walk_roots_); },
      [&](pass_action::RunGraph) { is_root_ ? notify_root(&Pass::work_) : request_run(); },
      [&](pass_action::End) {
        if (ending) end(*std::exchange(ending, std::nullopt));
      },
      [&](pass_action::Finish) { notify_root(&Pass::done_); }};
  for (const PassAction& action : actions) std::visit(carry_out, action);
}

/// Call with the lock, so that actions of other threads do not find a part that has ended. Returns nullopt if the
/// actions do not end the pass, or it has ended before.
std::optional<Pass::Ending> Pass::take_ending(const std::vector<PassAction>& actions) {
  const auto is_end = [](const PassAction& action) { return std::holds_alternative<pass_action::End>(action); };
  if (std::none_of(actions.begin(), actions.end(), is_end) || std::exchange(ended_, true)) return std::nullopt;
  return Ending{.finished = !protocol_.failed(), .reports_made = protocol_.reports_made(), .task = graph_.free()};
}

void Pass::end(Ending ending) {
  ending.task.reset();
  trace_.ended(!ending.finished);
  context_->end_pass(*this, ending.finished, ending.reports_made);
  Lock lock(mutex_);
  left_context_ = true;
  const auto continuations = std::exchange(at_end_, {});
  lock.unlock();
  for (const auto& f : continuations) f();
}

void Pass::reply(PassToken token, rpc::Message message) {
  Lock lock(mutex_);
  auto call = calls_.extract(token);  // present: the protocol answers each message once
  lock.unlock();
  call.mapped().reply(std::move(message));
}

void Pass::notify_root(bool Pass::*flag) {
  Lock lock(mutex_);
  this->*flag = true;
  const Ref<rpc::FutureState<void>> wake = std::move(wake_);
  lock.unlock();
  if (wake) wake->try_set_value();
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
  // All messages share one deadline, so it does not matter which of them reached it first.
  if (answer.error && is_root_ && is_timeout(answer.error)) answer.error = timeout_error();
  Lock lock(mutex_);
  if (answer.error) fail_locked(answer.error);
  protocol_.answered(answer.reports);
  act(lock);
}

void Pass::send_abort(rpc::WorkerId to) {
  const auto now = rpc::Clock::now();
  const auto deadline = std::min(now + kOverTimeout, std::max(deadline_, now + kLateOverTimeout));
  transmitter_->call(to, write_over(header_), deadline,
                     [pass = shared_from_this()](rpc::Message* reply, const std::exception_ptr& error) {
                       pass->over_answered(reply, error);
                     });
}

/// A lost worker cannot forward the failure to the workers that it engaged, so the root sends it to all workers.
void Pass::over_answered(rpc::Message* reply, const std::exception_ptr& error) {
  bool incomplete = false;
  try {
    if (error) std::rethrow_exception(error);
    incomplete = read_acknowledgement(*reply);
  } catch (const rpc::PeerLostError&) {
    incomplete = true;
  } catch (...) {  // the call timed out, or this agent is closing
  }
  std::vector<rpc::WorkerInfo> everyone;
  if (incomplete && is_root_) everyone = transmitter_->peers();
  Lock lock(mutex_);
  over_incomplete_ |= incomplete;
  if (abort_broadcast_) everyone.clear();
  abort_broadcast_ |= !everyone.empty();
  protocol_.sending_aborts(everyone.size());
  lock.unlock();
  for (const rpc::WorkerInfo& worker : everyone) send_abort(worker.id);
  lock.lock();
  protocol_.over_answered();
  act(lock);
}

}  // namespace tendril::dist::autograd::detail
