#include "tendril/dist/autograd/detail/pass.h"

#include <algorithm>
#include <chrono>
#include <shared_mutex>

#include "tendril/autograd/history.h"
#include "tendril/rpc/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::autograd::detail {

using tendril::autograd::Edge;
using tendril::autograd::GraphTask;
using tendril::autograd::Node;

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
                 .reports_made = context_->reports_made()}) {}

Pass::~Pass() = default;

// ---- the root

void Pass::run_from(const std::vector<Tensor>& roots) {
  for (const Tensor& root : roots) {
    roots_.push_back(tendril::autograd::gradient_edge(root));
    root_gradients_.push_back(raw::ones(root.sizes(), root.dtype(), root.device()));
  }
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

PassProtocol::Token Pass::keep(rpc::InboundCall call) {
  const PassProtocol::Token token = next_token_++;
  calls_.emplace(token, std::move(call));
  return token;
}

void Pass::gradient(rpc::InboundCall call, GradientMessage message) {
  const rpc::WorkerId from = call.from().id;
  Lock lock(mutex_);
  const PassProtocol::Token token = keep(std::move(call));
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

void Pass::act(Lock& lock) {
  PassProtocol::Actions actions = protocol_.take();
  if (protocol_.failed() && !error_) {
    error_ = std::make_exception_ptr(AutogradError(
        "backward: it came to rest with gradients missing; a worker has recorded into the context meanwhile"));
  }
  if (abandoned_ && protocol_.failed() && protocol_.idle() && !is_root_) actions.ended = true;
  std::vector<std::pair<rpc::InboundCall, rpc::Message>> replies;
  const auto reply = [&](PassProtocol::Token token, auto make) {
    const auto found = calls_.find(token);
    if (found == calls_.end()) return;
    replies.emplace_back(std::move(found->second), make());
    calls_.erase(found);
  };
  const std::string& self = transmitter_->self().name;
  for (const auto& [token, reports] : actions.answers) reply(token, [&, &r = reports] { return write_answer(r); });
  for (const auto token : actions.refusals) reply(token, [&] { return write_error(error_, self); });
  for (const auto token : actions.over_answers) reply(token, [&] { return write_heard(over_incomplete_); });
  if (actions.drop_unmarked) drop_unmarked_ = true;
  PassHeader header = header_;
  header.resolved = protocol_.resolved();
  std::unique_ptr<GraphTask> free_now;
  std::vector<std::function<void()>> at_end;
  const bool ends = actions.ended && !ended_;
  if (ends) {
    ended_ = true;
    free_now = std::move(task_);
    at_end.swap(at_end_);
  }
  const bool finished = !protocol_.failed();
  const uint64_t reports_made = protocol_.reports_made();
  Ref<rpc::FutureState<void>> wake;
  if (is_root_) {
    work_ |= actions.run;
    walk_roots_ |= actions.walk_roots;
    if (work_ || walk_roots_) wake = std::move(wake_);
  }
  lock.unlock();

  // Before others are answered: who hears that this worker is done may look at its counters, or start the next pass.
  const auto alive = shared_from_this();
  free_now.reset();
  if (ends) {
    context_->end_pass(*this, finished, reports_made);
    for (const auto& f : at_end) f();
  }
  for (auto& [call, message] : replies) call.reply(std::move(message));
  for (auto& [worker, messages] : actions.marks) call_and_settle(worker, write_mark(header, messages));
  for (const rpc::WorkerId worker : actions.resolves) call_and_settle(worker, write_resolve(header));
  for (const rpc::WorkerId worker : actions.overs) tell_over(worker);
  if (!actions.walk.empty()) walk_sends(actions.walk);
  if (actions.run && !is_root_) request_run();
  if (actions.done) {
    const std::lock_guard again(mutex_);
    done_ = true;
    if (!wake) wake = std::move(wake_);
  }
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
      if (!task_) make_task();
      for (Fed& one : fed) feed(one);
      if (drop) drop_unmarked();
      finished = task_->run();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) task_.reset();  // gives the nodes back
  lock.lock();
  if (error) fail_locked(error);
  const bool again = protocol_.run_ended(finished);
  act(lock);
  return again;
}

void Pass::make_task() {
  const auto sends = context_->sends();
  std::vector<Edge> edges = roots_;
  bool marked_only = false;
  {
    const std::lock_guard lock(mutex_);
    marked_only = protocol_.resolved();
    for (const Ref<SendNode>& node : sends) {
      if (marked_only && !protocol_.is_marked(node->message())) continue;
      entries_.emplace(node->message(), std::pair(node, edges.size()));
      for (uint32_t i = 0; i < node->outputs().size(); ++i) edges.push_back({node, i});
    }
  }
  task_ = std::make_unique<GraphTask>(std::move(edges), *context_,
                                      GraphTask::Options{.retain_graph = header_.retain_graph});
  for (std::size_t i = 0; i < root_gradients_.size(); ++i) task_->add_root(i, std::move(root_gradients_[i]));
}

void Pass::feed(Fed& fed) {
  const auto found = entries_.find(fed.message);
  TENDRIL_CHECK_AS(AutogradError, found != entries_.end(), "backward: gradients came for message ",
                   worker_of(fed.message), ".", number_of(fed.message), ", which is not recorded in context ",
                   worker_of(header_.context), ".", number_of(header_.context), " here");
  const auto& [node, first] = found->second;
  TENDRIL_CHECK_AS(AutogradError, node->to() == fed.from && node->outputs().size() == fed.gradients.size(),
                   "backward: message ", worker_of(fed.message), ".", number_of(fed.message), " with ",
                   node->outputs().size(), " tensors went to rank ", node->to(), ", but rank ", fed.from, " sent ",
                   fed.gradients.size(), " gradients for it");
  had_.insert(fed.message);
  for (std::size_t i = 0; i < fed.gradients.size(); ++i) task_->add_root(first + i, std::move(fed.gradients[i]));
}

void Pass::drop_unmarked() {
  for (const auto& [message, entry] : entries_) {
    {
      const std::lock_guard lock(mutex_);
      if (protocol_.is_marked(message)) continue;
    }
    if (had_.contains(message)) continue;
    for (std::size_t i = 0; i < entry.first->outputs().size(); ++i) task_->drop_root(entry.second + i);
  }
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

std::vector<RemoteEdge> Pass::walk(std::vector<const Node*> stack) {
  std::vector<RemoteEdge> reached;
  const std::lock_guard lock(walk_mutex_);
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    if (node->is_leaf() || !walked_.insert(node).second) continue;
    if (const auto* recv = dynamic_cast<const RecvNode*>(node)) {
      reached.push_back({recv->from(), recv->message()});
      continue;
    }
    for (const Edge& edge : node->edges()) {
      if (edge) stack.push_back(edge.node.get());
    }
  }
  return reached;
}

void Pass::walk_sends(const std::vector<MessageId>& messages) {
  std::vector<Ref<SendNode>> nodes;
  std::vector<const Node*> stack;
  std::exception_ptr error;
  for (const MessageId message : messages) {
    nodes.push_back(context_->send(message));
    if (nodes.back()) {
      stack.push_back(nodes.back().get());
    } else {
      error = std::make_exception_ptr(AutogradError("backward: a message is to be marked that is not recorded here"));
    }
  }
  const std::vector<RemoteEdge> reached = walk(std::move(stack));
  Lock lock(mutex_);
  if (error) fail_locked(error);
  protocol_.walked(reached);
  act(lock);
}

void Pass::walk_roots() {
  std::vector<const Node*> stack;
  for (const Edge& root : roots_) stack.push_back(root.node.get());
  const std::vector<RemoteEdge> reached = walk(std::move(stack));
  Lock lock(mutex_);
  protocol_.walked(reached);
  act(lock);
}

}  // namespace tendril::dist::autograd::detail
