#include "tendril/dist/autograd/detail/context_state.h"

#include <algorithm>

#include "tendril/dist/autograd/detail/pass.h"

namespace tendril::dist::autograd::detail {

namespace {
constexpr std::size_t kFailedPasses = 64;
}

ContextState::ContextState(ContextId id, std::shared_ptr<Census> census) : id_(id), census_(std::move(census)) {
  failed_.reserve(kFailedPasses);
  census_->contexts.fetch_add(1, std::memory_order_relaxed);
}

ContextState::~ContextState() { census_->contexts.fetch_sub(1, std::memory_order_relaxed); }

void ContextState::add_known(rpc::WorkerId worker) {
  if (worker == worker_of(id_)) return;  // the maker starts the release itself
  const std::lock_guard lock(mutex_);
  const auto place = std::lower_bound(known_.begin(), known_.end(), worker);
  if (place == known_.end() || *place != worker) known_.insert(place, worker);
}

std::vector<rpc::WorkerId> ContextState::known() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

void ContextState::add_send(Ref<SendNode> node) {
  const MessageId message = node->message();
  const std::lock_guard lock(mutex_);
  TENDRIL_CHECK_AS(AutogradError, !pass_, "a tensor that requires a gradient was sent in context ", worker_of(id_), ".",
                   number_of(id_), " while a backward of this context is running on this worker");
  if (!released_) sends_.emplace(message, std::move(node));
}

void ContextState::accumulate(const tendril::autograd::Edge& target, Tensor gradient) {
  const std::lock_guard lock(gradients_mutex_);
  if (interceptor_ && interceptor_(target.node, gradient, gradients_)) return;
  gradients_.add(target.node, std::move(gradient));
}

bool ContextState::intercept_gradients(Container::GradientInterceptor interceptor) {
  const std::lock_guard lock(gradients_mutex_);
  if (interceptor_) return false;
  interceptor_ = std::move(interceptor);
  return true;
}

void ContextState::stop_intercepting() noexcept {
  const std::lock_guard lock(gradients_mutex_);
  interceptor_ = nullptr;
}

void ContextState::set_gradients(const std::vector<Gradients::Entry>& entries) {
  const std::lock_guard lock(gradients_mutex_);
  for (const Gradients::Entry& one : entries) gradients_.set(one.leaf, one.gradient);
}

Gradients ContextState::gradients() const {
  const std::lock_guard lock(gradients_mutex_);
  return gradients_;
}

void ContextState::scale_gradients(const std::vector<Tensor>& leaves, double factor) {
  const std::lock_guard lock(gradients_mutex_);
  for (const Tensor& leaf : leaves) gradients_.scale(leaf, factor);
}

std::vector<Ref<SendNode>> ContextState::sends() const {
  std::vector<Ref<SendNode>> nodes;
  const std::lock_guard lock(mutex_);
  nodes.reserve(sends_.size());
  for (const auto& [id, node] : sends_) nodes.push_back(node);
  return nodes;
}

Ref<SendNode> ContextState::send(MessageId message) const {
  const std::lock_guard lock(mutex_);
  const auto found = sends_.find(message);
  return found == sends_.end() ? Ref<SendNode>() : found->second;
}

std::shared_ptr<Pass> ContextState::pass() const {
  const std::lock_guard lock(mutex_);
  return pass_;
}

/// Call with the lock. The constructor of Pass therefore must not lock this context.
std::shared_ptr<Pass> ContextState::begin_locked(const PassHeader& header, bool mark_first,
                                                 rpc::Clock::time_point deadline,
                                                 const std::shared_ptr<Transmitter>& transmitter) {
  pass_ = std::make_shared<Pass>(Pass::Options{.header = header,
                                               .mark_first = mark_first,
                                               .all_received = header.pass == finished_,
                                               .reports_made = reports_made_,
                                               .deadline = deadline},
                                 shared_from_this(), transmitter);
  census_->passes.fetch_add(1, std::memory_order_relaxed);
  return pass_;
}

std::shared_ptr<Pass> ContextState::find_or_begin_pass(const PassHeader& header, rpc::Clock::time_point deadline,
                                                       const std::shared_ptr<Transmitter>& transmitter) {
  const std::lock_guard lock(mutex_);
  if (pass_) return pass_;
  TENDRIL_CHECK_AS(AutogradError, !released_, "backward: the context has been released");
  TENDRIL_CHECK_AS(AutogradError, std::find(failed_.begin(), failed_.end(), header.pass) == failed_.end(),
                   "backward: this pass has already failed");
  return begin_locked(header, false, deadline, transmitter);
}

std::shared_ptr<Pass> ContextState::begin_pass(const PassHeader& header, rpc::Clock::time_point deadline,
                                               const std::shared_ptr<Transmitter>& transmitter) {
  const std::lock_guard lock(mutex_);
  if (pass_ || released_) return nullptr;
  return begin_locked(header, !header.fast && was_stuck_, deadline, transmitter);
}

void ContextState::end_pass(Pass& pass, bool finished, uint64_t reports_made) {
  if (!finished) note_failed(pass.id());
  std::shared_ptr<Pass> ended;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (pass_.get() != &pass) return;
  if (finished) finished_ = pass.id();
  reports_made_ = std::max(reports_made_, reports_made);
  ended = std::move(pass_);
  census_->passes.fetch_sub(1, std::memory_order_relaxed);
}

void ContextState::note_failed(PassId pass) {
  const std::lock_guard lock(mutex_);
  if (std::find(failed_.begin(), failed_.end(), pass) != failed_.end()) return;
  if (failed_.size() == kFailedPasses) failed_.erase(failed_.begin());
  failed_.push_back(pass);  // within the reserved capacity, because the pass may have ended for lack of memory
}

void ContextState::set_stuck() {
  const std::lock_guard lock(mutex_);
  was_stuck_ = true;
}

std::vector<rpc::WorkerId> ContextState::release() {
  std::unordered_map<MessageId, Ref<SendNode>> sends;
  std::shared_ptr<Pass> pass;
  std::vector<rpc::WorkerId> known;
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
    sends.swap(sends_);
    known.swap(known_);
    pass = pass_;
  }
  if (pass) {
    pass->fail(std::make_exception_ptr(AutogradError("backward: its context was released while it was running")));
    pass->abandon();
  }
  Gradients gradients;
  const std::lock_guard lock(gradients_mutex_);
  std::swap(gradients, gradients_);
  return known;
}

}  // namespace tendril::dist::autograd::detail
