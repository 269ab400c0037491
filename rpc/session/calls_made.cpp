#include "tendril/rpc/session/calls_made.h"

#include <algorithm>

#include <mutex>

namespace tendril::rpc::detail {

uint64_t CallsMade::enter(CallMade&& call) {
  const std::lock_guard lock(mutex_);
  if (ended_) return 0;
  calls_.insert(last_call_id_ + 1, std::move(call));
  return ++last_call_id_;
}

void CallsMade::watch(uint64_t call_id, std::unique_ptr<CancelCallback> stop) {
  const std::lock_guard lock(mutex_);
  if (CallMade* const found = calls_.find(call_id)) found->stop.swap(stop);
}

bool CallsMade::begin_leaving(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  CallMade* const found = calls_.find(call_id);
  if (!found) return false;
  found->leaving = true;
  return true;
}

bool CallsMade::end_leaving(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  if (CallMade* const found = calls_.find(call_id)) found->leaving = false;
  return std::erase(ended_leaving_, call_id) > 0;
}

std::optional<CallMade> CallsMade::take(uint64_t call_id, bool cancelled) {
  const std::lock_guard lock(mutex_);
  std::optional<CallMade> call = calls_.take(call_id);
  if (cancelled && call && call->leaving) ended_leaving_.push_back(call_id);
  return call;
}

CallsMade::Overdue CallsMade::take_overdue(Clock::time_point now) {
  Overdue overdue;
  std::vector<uint64_t> late;
  const std::lock_guard lock(mutex_);
  calls_.for_each([&](uint64_t call_id, const CallMade& call) {
    if (call.deadline <= now) {
      late.push_back(call_id);
    } else {
      overdue.next = std::min(overdue.next, call.deadline);
    }
  });
  overdue.calls.reserve(late.size());
  for (const uint64_t call_id : late) {
    overdue.calls.emplace_back(call_id, std::move(*calls_.take(call_id)));
    if (overdue.calls.back().second.leaving) ended_leaving_.push_back(call_id);
  }
  overdue.others = !calls_.empty();
  return overdue;
}

std::optional<CallTable<CallMade>> CallsMade::end() {
  std::optional<CallTable<CallMade>> left;
  const std::lock_guard lock(mutex_);
  if (ended_) return left;
  ended_ = true;
  left.emplace().swap(calls_);
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
