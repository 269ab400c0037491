#include "tendril/dist/collectives/detail/hub.h"

#include <algorithm>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"

namespace tendril::dist {

namespace detail {

namespace {
/// Number of join requests that are kept until their channel is added, which is as many as a group can have members.
/// Further ones are refused. Requests of members that have stopped waiting are dropped.
constexpr std::size_t kMaxEarly = 4096;
constexpr std::size_t kMaxEnded = 1024;
}  // namespace

std::shared_ptr<CollectiveHub> CollectiveHub::attach(rpc::Agent& agent) {
  serve_collective_requests();
  auto hub = std::make_shared<CollectiveHub>(agent);
  agent.attach(hub);
  agent.add_hook(hub);
  return hub;
}

std::shared_ptr<CollectiveHub> CollectiveHub::of(const rpc::Agent& agent) {
  if (auto hub = agent.part<CollectiveHub>()) return hub;
  throw rpc::UsageError("worker '" + agent.self().name +
                        "' does not take part in collectives: call dist::enable_collectives() before rpc::init_rpc, or "
                        "dist::attach_collectives for an agent of your own");
}

CollectiveHub::CollectiveHub(rpc::Agent& agent) : transmitter_(std::make_shared<Transmitter>(agent)) {}

/// Moves the join requests whose callers have stopped waiting to `stale`. Call with the lock, and destroy `stale` after
/// releasing it: that answers the requests with an error.
void CollectiveHub::drop_stale(std::vector<rpc::InboundCall>& stale) {
  const auto now = rpc::Clock::now();
  for (auto at = early_.begin(); at != early_.end();) {
    const bool over = at->second.context().deadline < now || at->second.context().stop.stop_requested();
    if (over) stale.push_back(std::move(at->second));
    at = over ? early_.erase(at) : std::next(at);
  }
}

void CollectiveHub::add(const std::shared_ptr<Channel>& channel) {
  std::vector<rpc::InboundCall> early, stale;
  {
    const std::lock_guard lock(mutex_);
    const bool is_new = channels_.emplace(channel->key(), channel).second;
    TENDRIL_CHECK_AS(rpc::UsageError, is_new, channel->name(), ": already exists on worker '",
                     transmitter_->self().name, "'; concurrent groups of the same workers need different tags");
    drop_stale(stale);
    const auto [first, last] = early_.equal_range(channel->key());
    for (auto at = first; at != last; ++at) early.push_back(std::move(at->second));
    early_.erase(first, last);
  }
  for (rpc::InboundCall& call : early) channel->joined(std::move(call));
}

void CollectiveHub::remove(const Channel& channel) noexcept {
  std::shared_ptr<Channel> removed;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(channel.key());
  if (found == channels_.end() || found->second.get() != &channel) return;
  removed = std::move(found->second);
  channels_.erase(found);
  if (ended_.size() >= kMaxEnded) ended_.clear();
  ended_[channel.key()] = channel.failure();
}

Failure CollectiveHub::last_failure(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = ended_.find(key);
  if (found != ended_.end() && found->second) return found->second;
  return {Failure::other, "worker '" + transmitter_->self().name + "' is not in this process group"};
}

std::shared_ptr<Channel> CollectiveHub::find(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(key);
  return found == channels_.end() ? nullptr : found->second;
}

void CollectiveHub::join(uint64_t key, rpc::InboundCall call) {
  std::vector<rpc::InboundCall> stale;
  std::shared_ptr<Channel> channel;
  {
    // Look up and keep under one lock: otherwise a channel that is added in between would never receive this call.
    const std::lock_guard lock(mutex_);
    if (const auto found = channels_.find(key); found != channels_.end()) channel = found->second;
    drop_stale(stale);
    if (!channel && early_.size() < kMaxEarly) {
      early_.emplace(key, std::move(call));
      return;
    }
  }
  if (channel) return channel->joined(std::move(call));
  call.reply(write_answer({Failure::other, "process group: too many workers are waiting for worker '" +
                                               transmitter_->self().name + "' to create it"}));
}

std::vector<std::shared_ptr<Channel>> CollectiveHub::channels() const {
  std::vector<std::shared_ptr<Channel>> found;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, channel] : channels_) found.push_back(channel);
  return found;
}

void CollectiveHub::peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason) noexcept {
  for (const auto& channel : channels()) channel->peer_lost(peer, reason);
}

void CollectiveHub::agent_closing() noexcept {
  transmitter_->close();
  for (const auto& channel : channels()) {
    channel->fail({Failure::other, channel->name() + ": worker '" + transmitter_->self().name + "' has been shut down"},
                  false);
  }
  std::multimap<uint64_t, rpc::InboundCall> early;
  const std::lock_guard lock(mutex_);
  early.swap(early_);
}

bool enable_collectives_before_main() {
  enable_collectives();
  return true;
}

}  // namespace detail

void attach_collectives(rpc::Agent& agent) { detail::CollectiveHub::attach(agent); }
void enable_collectives() { rpc::extend_agents(&attach_collectives); }

}  // namespace tendril::dist
