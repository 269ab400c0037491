#include "tendril/dist/autograd/detail/pass.h"

#include <shared_mutex>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/allocations_must_succeed.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::dist::autograd::detail {

namespace {

thread_local Pass* running_pass = nullptr;
const auto running_pass_switched = tendril::detail::of_each_thread([]() -> auto& { return running_pass; });

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
      trace_(*transmitter_, header_.pass),
      protocol_({.self = transmitter_->self().id,
                 .root = worker_of(header_.pass),
                 .fast = header_.fast,
                 .mark_first = options.mark_first,
                 .all_received = options.all_received,
                 .reports_made = options.reports_made}),
      graph_(header_, *context_) {}

Pass::~Pass() = default;

std::exception_ptr Pass::timeout_error() {
  return std::make_exception_ptr(rpc::TimeoutError(
      "backward: timed out: a worker takes longer than the timeout, or (Mode::fast) the roots do not depend on every "
      "recorded message"));
}

// ---- the root

void Pass::run_from(const std::vector<Tensor>& roots) {
  const cuda::DefaultStreams in_order;  // gradients arrive on the default streams
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
      // After a failure, wait until all participants have acknowledged it. Each of these calls has its own deadline.
      if (wake->wait_until(in_time ? deadline_ : rpc::Clock::time_point::max())) continue;
      fail(timeout_error());
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
  const rpc::detail::AllocationsMustSucceed protocol;
  const rpc::WorkerId from = call.from().id;
  Lock lock(mutex_);
  const PassToken token = keep(std::move(call));
  if (!protocol_.gradient(token, message.message, message.header.resolved)) {
    rpc::InboundCall again = std::move(calls_.at(token));
    calls_.erase(token);
    lock.unlock();
    return again.reply(
        write_error(std::make_exception_ptr(AutogradError("backward: received gradients for the same message twice")),
                    transmitter_->self().name));
  }
  if (!protocol_.failed()) fed_.push_back({message.message, from, std::move(message.gradients)});
  act(lock);
}

void Pass::mark(rpc::InboundCall call, const std::vector<MessageId>& messages) {
  const rpc::detail::AllocationsMustSucceed protocol;
  Lock lock(mutex_);
  protocol_.mark(keep(std::move(call)), messages);
  act(lock);
}

void Pass::resolve(rpc::InboundCall call) {
  const rpc::detail::AllocationsMustSucceed protocol;
  Lock lock(mutex_);
  protocol_.resolve(keep(std::move(call)));
  act(lock);
}

void Pass::over(rpc::InboundCall call) {
  const rpc::detail::AllocationsMustSucceed protocol;
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
  const rpc::detail::AllocationsMustSucceed protocol;
  Lock lock(mutex_);
  fail_locked(error);
  act(lock);
}

void Pass::abandon() {
  const rpc::detail::AllocationsMustSucceed protocol;
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
    if (!left_context_) return at_end_.push_back(std::move(f));
  }
  f();
}

// ---- running the graph

void Pass::request_run() {
  auto run = [pass = shared_from_this()] {
    while (pass->run_once()) {
    }
  };
  rpc::post(transmitter_->executor(), std::move(run), rpc::Job::kContinuation, &transmitter_->run_time());
}

bool Pass::run_once() {
  std::vector<ReceivedGradients> fed;
  Lock lock(mutex_);
  fed.swap(fed_);
  const bool resolved = protocol_.resolved();
  std::exception_ptr error = protocol_.failed() ? error_ : nullptr;
  lock.unlock();
  bool finished = false;
  if (!error) {
    try {
      const RunningScope scope(this);
      const auto traced = trace_.slice(rpc::detail::TraceSpan::Kind::graph);
      std::shared_lock<rpc::detail::SharedMutex> reading;
      Census& census = *context_->census();
      if (census.hogwild.load(std::memory_order_relaxed)) {
        reading = rpc::blocking([&] { return std::shared_lock(census.parameters); });
      }
      const rpc::CallContextScope no_context{rpc::CallContext{}};
      if (!graph_.begun()) graph_.begin([&](MessageId message) { return !resolved || is_marked(message); });
      for (ReceivedGradients& one : fed) graph_.add_gradients(one);
      if (resolved) graph_.drop([&](MessageId message) { return is_marked(message); });
      finished = graph_.run();
    } catch (...) {
      error = std::current_exception();
    }
  }
  const rpc::detail::AllocationsMustSucceed protocol;
  if (error) graph_.free();
  lock.lock();
  if (error) fail_locked(error);
  const bool again = protocol_.run_ended(finished);
  act(lock);
  return again;
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

}  // namespace tendril::dist::autograd::detail
