#include "tendril/rpc/session/calls_served.h"

#include <mutex>
#include <utility>

namespace tendril::rpc::detail {

namespace {

/// The number of cancels that are remembered until their requests arrive. Such requests are in flight, and no peer has
/// many of them. Some never arrive, so the cancels with the lowest IDs are forgotten first.
constexpr std::size_t kMostOvertaken = 1024;

}  // namespace

std::optional<LazyStopToken> CallsServed::admit(uint64_t call_id, CallServed&& call) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !filter_.admit(call_id)) return std::nullopt;
  LazyStopToken stop = call.stop.get_token();
  if (!overtaken_.empty() && overtaken_.erase(call_id) > 0) call.stop.request_stop();
  calls_.insert(call_id, std::move(call));
  return stop;
}

LazyStopToken CallsServed::dispatch(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  CallServed* const found = calls_.find(call_id);
  if (!found) return {};
  found->dispatched = true;
  return found->stop.get_token();
}

std::optional<CallServed> CallsServed::take(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  return calls_.take(call_id);
}

void CallsServed::put_back(uint64_t call_id, CallServed&& call) {
  const std::lock_guard lock(mutex_);
  if (!ended_) calls_.insert(call_id, std::move(call));
}

void CallsServed::cancel(uint64_t call_id) {
  std::optional<LazyStopSource> source;
  {
    const std::lock_guard lock(mutex_);
    const CallServed* const found = calls_.find(call_id);
    if (!found) {
      if (filter_.seen(call_id)) return;  // it has been answered
      overtaken_.insert(call_id);
      if (overtaken_.size() > kMostOvertaken) overtaken_.erase(overtaken_.begin());
      return;
    }
    source = found->stop;
  }
  source->request_stop();  // without the lock, because a stop callback may use this object
}

RequestStatus CallsServed::withdraw(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  if (!filter_.withdraw(call_id)) return RequestStatus::unseen;
  return calls_.contains(call_id) ? RequestStatus::serving : RequestStatus::answered;
}

bool CallsServed::hold(std::unique_ptr<Job>& request, const std::function<bool()>& congested) {
  const std::lock_guard lock(mutex_);
  if (ended_ || !congested()) return false;
  held_.push_back(std::move(request));
  return true;
}

std::vector<std::unique_ptr<Job>> CallsServed::take_held() {
  const std::lock_guard lock(mutex_);
  return std::exchange(held_, {});
}

std::vector<std::unique_ptr<Job>> CallsServed::end() {
  CallTable<CallServed> calls;
  std::vector<std::unique_ptr<Job>> held;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    calls.swap(calls_);
    held.swap(held_);
  }
  calls.for_each([](uint64_t, CallServed& call) { call.stop.request_stop(); });
  return held;
}

std::size_t CallsServed::size() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

void CallsServed::for_each(const std::function<void(uint64_t, const CallServed&, bool held)>& f) const {
  const std::lock_guard lock(mutex_);
  std::unordered_set<uint64_t> held;
  for (const auto& request : held_) held.insert(request->origin().call_id);
  calls_.for_each([&](uint64_t call_id, const CallServed& call) { f(call_id, call, held.contains(call_id)); });
}

}  // namespace tendril::rpc::detail
