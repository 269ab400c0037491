#include "tendril/rpc/session/calls_made.h"

#include <algorithm>
#include <mutex>
#include <new>

namespace tendril::rpc::detail {

uint64_t CallsMade::enter(CallMade&& call) {
  const std::lock_guard lock(mutex_);
  if (ended_) return 0;
  const Clock::time_point deadline = call.deadline;
  const bool has_deadline = deadline != Clock::time_point::max();
  if (has_deadline) deadlines_.reserve_one();
  const uint32_t place = calls_.insert(last_call_id_ + 1, std::move(call));
  if (has_deadline) deadlines_.add(deadline, place, moved());
  return ++last_call_id_;
}

std::optional<CallMade> CallsMade::take_locked(uint64_t call_id, bool cancelled) noexcept {
  std::optional<CallMade> call = calls_.take(call_id);
  if (call && cancelled && call->leaving) *call->leaving = true;
  if (call && call->deadline_position != Deadlines::kNowhere) deadlines_.remove(call->deadline_position, moved());
  return call;
}

void CallsMade::watch(uint64_t call_id, std::unique_ptr<CancelCallback> stop) {
  const std::lock_guard lock(mutex_);
  if (CallMade* const found = calls_.find(call_id)) found->stop.swap(stop);
}

bool CallsMade::begin_leaving(uint64_t call_id, bool& cancelled) {
  const std::lock_guard lock(mutex_);
  CallMade* const found = calls_.find(call_id);
  if (!found) return false;
  found->leaving = &cancelled;
  return true;
}

void CallsMade::end_leaving(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  if (CallMade* const found = calls_.find(call_id)) found->leaving = nullptr;
}

std::optional<CallMade> CallsMade::take(uint64_t call_id, bool cancelled) {
  const std::lock_guard lock(mutex_);
  return take_locked(call_id, cancelled);
}

CallsMade::Overdue CallsMade::take_overdue(Clock::time_point now) {
  Overdue overdue;
  const std::lock_guard lock(mutex_);
  while (deadlines_.earliest() <= now) {
    auto& calls = overdue.calls;
    const uint64_t call_id = calls_.number(deadlines_.place_of_earliest());
    try {  // what may throw comes first: a call that has been taken out must not get lost
      if (calls.size() == calls.capacity()) calls.reserve(std::max<std::size_t>(16, 2 * calls.size()));
    } catch (const std::bad_alloc&) {
      break;  // the next call takes the rest
    }
    calls.emplace_back(call_id, std::move(*take_locked(call_id, true)));
  }
  overdue.next = deadlines_.earliest();
  overdue.others = !calls_.empty();
  return overdue;
}

std::optional<CallTable<CallMade>> CallsMade::end() {
  std::optional<CallTable<CallMade>> left;
  const std::lock_guard lock(mutex_);
  if (ended_) return left;
  ended_ = true;
  left.emplace().swap(calls_);
  deadlines_ = {};
  return left;
}

bool CallsMade::contains(uint64_t call_id) const {
  const std::lock_guard lock(mutex_);
  return calls_.contains(call_id);
}

bool CallsMade::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::size_t CallsMade::size() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

void CallsMade::for_each(const std::function<void(uint64_t, const CallMade&)>& f) const {
  const std::lock_guard lock(mutex_);
  calls_.for_each(f);
}

}  // namespace tendril::rpc::detail
