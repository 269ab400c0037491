#include "tendril/dist/autograd/container.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/dist/autograd/detail/context_state.h"
#include "tendril/dist/autograd/detail/handlers.h"
#include "tendril/dist/autograd/detail/messages.h"
#include "tendril/dist/autograd/detail/pass.h"
#include "tendril/dist/autograd/detail/transmitter.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::dist::autograd {

namespace {

// Message::autograd_message of a reply without recorded tensors. 0 means that the callee does not take part.
constexpr MessageId kNothingRecorded = ~MessageId{0};

/// Number of released contexts per series that are remembered individually. `floor` covers older ones.
constexpr std::size_t kMaxReleased = 4096;

/// When a worker is lost, this many contexts after its last one seen here are treated as released, because calls in
/// them may still arrive. (If a third worker's call in a later context, or in a series not seen here, arrives after the
/// loss, it makes a context that is never released.)
constexpr uint64_t kUnseenContexts = 64;

/// Returns the first number of messages and passes. Each incarnation starts at a random number, so that it hardly ever
/// repeats a number of the previous incarnation. Numbers are compared only within a context.
uint64_t first_number(const rpc::Agent& agent) { return number_of(agent.incarnation()) / 2 + 1; }

/// Returns the series of contexts that the agent makes now. In a group it does not depend on the clock, which may be
/// set back between two incarnations.
uint64_t series_now(const rpc::Agent& agent) {
  const uint64_t epoch = agent.epoch();
  return (epoch > 0 ? epoch : agent.incarnation()) % (uint64_t{1} << kEpochBits);
}

/// Finds the container of a handler's pool. Agents remove their entries when they close.
struct ByExecutor {
  rpc::detail::Mutex mutex;
  std::unordered_map<const rpc::Executor*, std::weak_ptr<Container>> containers;
};
ByExecutor& by_executor() {
  static auto* instance = new ByExecutor();  // outlives every agent
  return *instance;
}

std::string text_of(ContextId id) { return std::to_string(worker_of(id)) + "." + std::to_string(number_of(id)); }

}  // namespace

// ---- attaching

std::shared_ptr<Container> Container::attach(rpc::Agent& agent) {
  TENDRIL_CHECK_AS(rpc::UsageError, agent.options().world_size <= 1 << 15,
                   "distributed autograd: world_size: expected at most 32768, got ", agent.options().world_size);
  detail::serve_requests();
  detail::serve_graphs();
  auto container = std::make_shared<Container>(agent);
  agent.attach(container);
  agent.add_hook(container);
  const std::lock_guard lock(by_executor().mutex);
  by_executor().containers[&agent.executor()] = container;
  return container;
}

std::shared_ptr<Container> Container::of(const rpc::Agent& agent) {
  if (auto container = agent.part<Container>()) return container;
  throw rpc::UsageError("worker '" + agent.self().name +
                        "' does not take part in distributed autograd: call dist::autograd::enable() before "
                        "rpc::init_rpc, or Container::attach for an agent of your own");
}

std::shared_ptr<Container> Container::current() {
  if (const rpc::Executor* executor = rpc::Executor::current()) {
    const std::lock_guard lock(by_executor().mutex);
    const auto found = by_executor().containers.find(executor);
    if (found != by_executor().containers.end()) {
      if (auto container = found->second.lock()) return container;
    }
  }
  return of(*rpc::default_agent());
}

Container::Container(rpc::Agent& agent)
    : census_(std::make_shared<detail::Census>()),
      transmitter_(std::make_shared<detail::Transmitter>(agent)),
      world_size_(agent.options().world_size),
      next_message_(first_number(agent)),
      next_pass_(first_number(agent)) {}

Container::~Container() = default;

const rpc::WorkerInfo& Container::self() const noexcept { return transmitter_->self(); }

Counters Container::counters() const {
  const auto read = [](const std::atomic<int64_t>& count) { return count.load(std::memory_order_relaxed); };
  return {read(census_->contexts), read(census_->send_nodes), read(census_->recv_nodes), read(census_->passes)};
}

void Container::scale_gradients(ContextId id, const std::vector<Tensor>& leaves, double factor) {
  if (const auto context = find(id)) context->scale_gradients(leaves, factor);
}

void Container::agent_closing() noexcept {
  transmitter_->close();
  {
    const std::lock_guard lock(by_executor().mutex);
    by_executor().containers.erase(&transmitter_->executor());
  }
  std::unordered_map<ContextId, std::shared_ptr<detail::ContextState>> contexts;
  {
    const std::lock_guard lock(mutex_);
    contexts.swap(contexts_);
    own_.clear();
  }
  for (const auto& [id, context] : contexts) context->release();
}

// ---- contexts

bool Container::is_released_locked(ContextId id) const {
  const auto found = released_.find(series_of(id));
  if (found == released_.end()) return false;
  return count_of(id) <= found->second.floor || found->second.counts.contains(count_of(id));
}

/// Whether the context was released because this worker lost its maker. Other workers may still be connected to the
/// maker, so tensors that are not recorded here would silently be missing from the gradients.
bool Container::is_lost(ContextId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = released_.find(series_of(id));
  return found != released_.end() && count_of(id) > found->second.lost_after && count_of(id) <= found->second.lost_to;
}

/// Whether the context was made before this worker joined. An earlier worker of this rank may have recorded tensors in
/// it; their gradients would be missing.
bool Container::is_earlier(ContextId id) const noexcept {
  const auto agent = transmitter_->agent();
  return agent && agent->generation() > 0 && is_before(id, agent->generation());
}

std::shared_ptr<detail::ContextState> Container::find(ContextId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second;
}

std::shared_ptr<detail::ContextState> Container::find_or_make(ContextId id) {
  const rpc::WorkerId maker = worker_of(id);
  TENDRIL_CHECK_AS(rpc::MessageError, maker >= 0 && maker < world_size_ && number_of(id) > 0,
                   "received a call in autograd context ", text_of(id),
                   ", which no worker of this group can have made");
  if (auto found = find(id)) return found;
  // This worker's own contexts are in `contexts_` until they are released.
  if (maker == self().id || is_earlier(id)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(id);
  if (found != contexts_.end()) return found->second;
  if (is_released_locked(id)) return nullptr;
  auto context = std::make_shared<detail::ContextState>(id, census_);
  contexts_.emplace(id, context);
  return context;
}

std::shared_ptr<detail::ContextState> Container::require(ContextId id, const char* what) const {
  auto context = find(id);
  TENDRIL_CHECK_AS(AutogradError, context != nullptr, what, ": autograd context ", text_of(id),
                   " is unknown on worker '", self().name,
                   is_earlier(id) ? "', which joined after it was made" : "', or it was released");
  return context;
}

ContextId Container::make_context() {
  const std::lock_guard lock(mutex_);
  const auto agent = transmitter_->agent();
  if (!agent) throw rpc::UsageError("Context: worker '" + self().name + "' has been shut down");
  TENDRIL_CHECK_AS(AutogradError, last_count_ + 1 < uint64_t{1} << kCountBits, "Context: worker '", self().name,
                   "' has made 2^", kCountBits, " - 1 contexts, the maximum");
  const ContextId id = make_id(self().id, series_now(*agent) << kCountBits | ++last_count_);
  contexts_.emplace(id, std::make_shared<detail::ContextState>(id, census_));
  own_.insert(last_count_);
  return id;
}

bool Container::contains(ContextId id) const { return find(id) != nullptr; }
Gradients Container::gradients(ContextId id) const { return require(id, "get_gradients")->gradients(); }

// ---- release

void Container::release(ContextId id) {
  uint64_t oldest_alive = 0;
  {
    const std::lock_guard lock(mutex_);
    if (worker_of(id) != self().id || own_.erase(count_of(id)) == 0) return;
    oldest_alive = own_.empty() ? last_count_ + 1 : *own_.begin();
  }
  release_here(id, oldest_alive, self().id, [self = shared_from_this(), id, oldest_alive](bool incomplete) {
    if (!incomplete) return;
    // The workers that an unreachable worker had called are unknown, so send the release to all workers.
    std::vector<rpc::WorkerId> everyone;
    for (const rpc::WorkerInfo& peer : self->transmitter_->peers()) everyone.push_back(peer.id);
    self->send_releases(everyone, id, oldest_alive, [](bool) {});
  });
}

void Container::release_here(ContextId id, uint64_t oldest_alive, rpc::WorkerId except, Heard done) {
  std::shared_ptr<detail::ContextState> context;
  {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(id);
    if (found != contexts_.end()) {
      context = std::move(found->second);
      contexts_.erase(found);
    }
    if (worker_of(id) != self().id) {
      Released& released = released_[series_of(id)];
      released.counts.insert(count_of(id));
      if (oldest_alive > 0) released.floor = std::max(released.floor, oldest_alive - 1);
      while (!released.counts.empty() &&
             (*released.counts.begin() <= released.floor || released.counts.size() > kMaxReleased)) {
        released.floor = std::max(released.floor, *released.counts.begin());
        released.counts.erase(released.counts.begin());
      }
    }
  }
  if (!context) return done(is_lost(id));  // the list of workers called from here is gone
  std::vector<rpc::WorkerId> known = context->release();
  std::erase(known, except);
  std::erase(known, self().id);
  send_releases(known, id, oldest_alive, std::move(done));
}

void Container::send_releases(const std::vector<rpc::WorkerId>& to, ContextId id, uint64_t oldest_alive, Heard done) {
  if (to.empty()) return done(false);
  struct Progress {
    std::atomic<std::size_t> left;
    std::atomic<bool> incomplete{false};
    Heard done;
  };
  auto progress = std::make_shared<Progress>();
  progress->left = to.size();
  progress->done = std::move(done);
  for (const rpc::WorkerId worker : to) {
    send_release(worker, id, oldest_alive, 0, [progress](bool incomplete) {
      if (incomplete) progress->incomplete = true;
      if (progress->left.fetch_sub(1, std::memory_order_acq_rel) == 1) progress->done(progress->incomplete);
    });
  }
}

void Container::send_release(rpc::WorkerId to, ContextId id, uint64_t oldest_alive, int attempt, Heard done) {
  // `to` answers after the workers that it called; it answers a repeated release at once.
  const auto patience = std::chrono::milliseconds(1000) * (1 << std::min(attempt, 4));
  transmitter_->call(to, detail::write_release({id, oldest_alive}), rpc::Clock::now() + patience,
                     [self = shared_from_this(), to, id, oldest_alive, attempt, done = std::move(done)](
                         rpc::Message* reply, const std::exception_ptr& error) mutable {
                       bool incomplete = false;
                       try {
                         if (error) std::rethrow_exception(error);
                         incomplete = detail::read_acknowledgement(*reply);
                       } catch (const rpc::TimeoutError&) {
                         return self->send_release(to, id, oldest_alive, attempt + 1, std::move(done));
                       } catch (const rpc::PeerLostError&) {
                         incomplete = true;
                       } catch (...) {
                         // This agent is closing, or the peer does not take part and has nothing to release.
                       }
                       done(incomplete);
                     });
}

void Container::peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason) noexcept {
  std::vector<std::shared_ptr<detail::ContextState>> lost, others;
  {
    std::map<uint64_t, uint64_t> last;  // the last context of each series of the peer
    const std::lock_guard lock(mutex_);
    for (auto at = contexts_.begin(); at != contexts_.end();) {
      if (worker_of(at->first) == peer.id) {
        lost.push_back(std::move(at->second));
        uint64_t& count = last[series_of(at->first)];
        count = std::max(count, count_of(at->first));
        at = contexts_.erase(at);
      } else {
        others.push_back(at->second);
        ++at;
      }
    }
    for (const auto& [series, released] : released_) {
      if (worker_of(series << kCountBits) == peer.id) last.try_emplace(series);
    }
    // Contexts of the lost maker that this worker has not seen yet would never be released.
    for (auto& [series, count] : last) {
      Released& released = released_[series];
      count = std::max({count, released.floor, released.counts.empty() ? 0 : *released.counts.rbegin()});
      const uint64_t after = released.lost_to > 0 ? released.lost_after : released.floor;  // kept from an earlier loss
      released = {.floor = count + kUnseenContexts, .lost_after = after, .lost_to = count + kUnseenContexts};
    }
  }
  for (const auto& context : lost) context->release();
  for (const auto& context : others) {
    const auto pass = context->pass();
    if (!pass || worker_of(pass->id()) != peer.id) continue;
    pass->fail(reason);  // the lost root cannot send an over
    pass->abandon();
  }
}

/// Undoes the margin of kUnseenContexts contexts that `peer_lost` declared released: the peer is alive, and will itself
/// release the contexts that this worker has not seen yet. A series whose floor has risen since does not change.
void Container::peer_returned(const rpc::WorkerInfo& peer) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [series, released] : released_) {
    if (worker_of(series << kCountBits) != peer.id || released.floor != released.lost_to) continue;
    released.floor = released.lost_to -= std::min(kUnseenContexts, released.lost_to);
  }
}

// ---- backward

void Container::backward(ContextId id, const std::vector<Tensor>& roots, const BackwardOptions& options) {
  TENDRIL_CHECK_AS(
      AutogradError, !options.create_graph,
      "backward: create_graph is not supported across workers, because gradients between workers are not recorded");
  TENDRIL_CHECK_AS(AutogradError, !roots.empty(), "backward: there are no roots");
  TENDRIL_CHECK_AS(AutogradError, options.timeout.count() >= 0, "backward: timeout must not be negative, got ",
                   options.timeout.count(), " ms");
  for (std::size_t i = 0; i < roots.size(); ++i) {
    TENDRIL_CHECK_AS(AutogradError, roots[i].defined(), "backward: root ", i, " is undefined");
    TENDRIL_CHECK_AS(AutogradError, roots[i].numel() == 1, "backward: root ", i, " is not a scalar: its shape is ",
                     roots[i].sizes());
    TENDRIL_CHECK_AS(
        AutogradError, roots[i].requires_grad(), "backward: root ", i,
        " has no history: it does not require a gradient, or is the result of a call that was made on a thread without "
        "this context");
  }
  const auto context = require(id, "backward");
  const auto alive = transmitter_->agent();  // so that a pass, which is made under a lock, does not end the agent
  const auto pass = context->begin_pass(
      {.context = id,
       .pass = make_id(self().id, next_pass_.fetch_add(1, std::memory_order_relaxed)),
       .retain_graph = options.retain_graph,
       .fast = options.mode == Mode::fast},
      options.timeout.count() == 0 ? rpc::Clock::time_point::max() : rpc::deadline_after(options.timeout),
      transmitter_);
  TENDRIL_CHECK_AS(AutogradError, pass, "backward: another backward of context ", text_of(id),
                   " is running on worker '", self().name, "', or the context was released");
  try {
    pass->run_from(roots);
  } catch (...) {
    context->end_pass(*pass, false, 0);  // has no effect unless the pass could not end for lack of memory
    throw;
  }
}

Tensor Container::backward_here(ContextId id, const Tensor& output, const Tensor& gradient, const Tensor& input) {
  struct Sink final : tendril::autograd::GradientSink {
    void accumulate(const tendril::autograd::Edge& target, Tensor found) override {
      if (target.node.get() == apart) {
        captured = std::move(found);
      } else {
        context->accumulate(target, std::move(found));
      }
    }
    std::shared_ptr<detail::ContextState> context;
    const tendril::autograd::Node* apart = nullptr;
    Tensor captured;
  };
  Sink sink;
  sink.context = require(id, "backward");
  TENDRIL_CHECK_AS(AutogradError, output.defined() && output.requires_grad(), "backward: the output has no history");
  if (input.defined()) sink.apart = tendril::autograd::grad_fn(input);
  const std::vector<tendril::autograd::Edge> roots{tendril::autograd::gradient_edge(output)};
  tendril::autograd::GraphTask task(roots, sink);
  task.add_root(std::size_t{0}, gradient);
  task.run();
  return sink.captured;
}

std::shared_ptr<void> Container::intercept_gradients(ContextId id, GradientInterceptor interceptor) {
  const auto context = require(id, "backward");
  TENDRIL_CHECK_AS(AutogradError, context->intercept_gradients(std::move(interceptor)),
                   "backward: another DistributedDataParallel already intercepts the gradients of context ",
                   text_of(id), " on worker '", self().name, "'");
  return {context.get(), [context](void*) { context->stop_intercepting(); }};
}

void Container::set_gradients(ContextId id, const std::vector<Gradients::Entry>& entries) {
  require(id, "backward")->set_gradients(entries);
}

// ---- recording

namespace {

std::vector<Tensor> with_history(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> found;
  for (const Tensor& tensor : tensors) {
    if (tendril::autograd::requires_grad(tensor)) found.push_back(tensor);
  }
  return found;
}

}  // namespace

void Container::refuse_to_record(ContextId id) const {
  if (is_earlier(id)) {
    throw AutogradError("worker '" + self().name + "' joined after the autograd context " + text_of(id) +
                        " was made: it cannot record tensors in it; begin a new context");
  }
  throw AutogradError("worker '" + self().name + "' has lost rank " + std::to_string(worker_of(id)) +
                      ", which made the autograd context " + text_of(id) +
                      ", and has released the context: it can no longer record tensors in it");
}

void Container::record_send(const rpc::WorkerInfo& to, rpc::Message& message, detail::ContextState& context) {
  const std::vector<Tensor> sent = with_history(message.tensors);
  if (sent.empty()) return;
  message.autograd_message = make_id(self().id, next_message_.fetch_add(1, std::memory_order_relaxed));
  context.add_send(Ref<SendNode>(new SendNode(message.autograd_message, to.id, sent, census_)));
}

void Container::record_receive(const rpc::WorkerInfo& from, rpc::Message& message, detail::ContextState& context) {
  std::vector<Tensor> received;
  std::vector<Device> origins;
  for (std::size_t i = 0; i < message.requires_grad.size() && i < message.tensors.size(); ++i) {
    if (!message.requires_grad[i]) continue;
    const Tensor& tensor = message.tensors[i];
    TENDRIL_CHECK_AS(rpc::MessageError, is_floating(tensor.dtype()), "worker '", from.name,
                     "' sent a tensor that requires a gradient with dtype ", tensor.dtype(),
                     ", expected a floating-point dtype");
    received.push_back(tensor);
    origins.push_back(message.placements.empty() ? kCPU : message.placements[i].from);
  }
  TENDRIL_CHECK_AS(rpc::MessageError, worker_of(message.autograd_message) == from.id && !received.empty(), "worker '",
                   from.name, "' sent a recorded message without tensors, or with the id of another worker");
  const Ref<RecvNode> node(
      new RecvNode(context.id(), message.autograd_message, from.id, received, std::move(origins), census_));
}

void Container::before_send(const rpc::WorkerInfo& to, rpc::Message& request) {
  if (request.autograd_context == 0) return;
  const auto context = tendril::autograd::grad_enabled() ? find(request.autograd_context) : nullptr;
  if (!context) {  // under NoGrad, or a call that outlives its context
    if (tendril::autograd::grad_enabled() && cannot_record(request.autograd_context)) {
      if (!with_history(request.tensors).empty()) refuse_to_record(request.autograd_context);
      return;
    }
    request.autograd_context = 0;
    return;
  }
  context->add_known(to.id);
  record_send(to, request, *context);
}

void Container::after_receive(const rpc::WorkerInfo& from, rpc::Message& request) {
  if (request.autograd_context == 0) return;
  const auto context = find_or_make(request.autograd_context);
  if (!context) {
    if (cannot_record(request.autograd_context)) {
      if (request.autograd_message != 0) refuse_to_record(request.autograd_context);
      return;
    }
    rpc::CallContext::current().autograd_context = 0;  // late: its nested calls are not recorded either
    return;
  }
  if (request.autograd_message != 0) record_receive(from, request, *context);
}

void Container::before_reply(const rpc::WorkerInfo& to, rpc::Message& reply) {
  if (reply.autograd_context == 0) return;
  if (const auto context = find(reply.autograd_context)) {
    record_send(to, reply, *context);
  } else if (cannot_record(reply.autograd_context) && !with_history(reply.tensors).empty()) {
    refuse_to_record(reply.autograd_context);
  }
  if (reply.autograd_message == 0) reply.autograd_message = kNothingRecorded;
}

void Container::after_reply(const rpc::WorkerInfo& from, rpc::Message& reply) {
  if (reply.autograd_context == 0) return;
  TENDRIL_CHECK_AS(AutogradError, reply.autograd_message != 0, "worker '", from.name,
                   "' does not take part in distributed autograd, but was called within a context: its program must "
                   "use dist::autograd::Context or call dist::autograd::enable()");
  if (reply.autograd_message == kNothingRecorded) return;
  if (const auto context = find(reply.autograd_context)) {
    record_receive(from, reply, *context);
  } else if (cannot_record(reply.autograd_context)) {
    refuse_to_record(reply.autograd_context);
  }
}

}  // namespace tendril::dist::autograd
