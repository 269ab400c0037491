#include <algorithm>
#include <iterator>

#include "tendril/rpc/session/agent_listener.h"

namespace tendril::rpc {

/// The index of the gap that it lies in; as many as there are if in none.
std::size_t CallFilter::gap_of(uint64_t call_id) const {
  const auto found =
      std::partition_point(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.last < call_id; });
  if (found == gaps_.end() || found->first > call_id) return gaps_.size();
  return static_cast<std::size_t>(found - gaps_.begin());
}

bool CallFilter::admit(uint64_t call_id) {
  if (call_id > last_) {
    if (call_id > last_ + 1) gaps_.push_back({last_ + 1, call_id - 1});
    if (gaps_.size() > kMaxGaps) gaps_.erase(gaps_.begin());
    last_ = call_id;
    return true;
  }
  const std::size_t index = gap_of(call_id);
  if (index == gaps_.size()) return false;
  const auto at = std::next(gaps_.begin(), static_cast<std::ptrdiff_t>(index));
  Gap& gap = *at;
  if (gap.first == gap.last) {
    gaps_.erase(at);
  } else if (call_id == gap.first) {
    ++gap.first;
  } else if (call_id == gap.last) {
    --gap.last;
  } else {
    const Gap before{gap.first, call_id - 1};
    gap.first = call_id + 1;
    gaps_.insert(at, before);
    if (gaps_.size() > kMaxGaps) gaps_.erase(gaps_.begin());
  }
  return true;
}

bool CallFilter::seen(uint64_t call_id) const { return call_id <= last_ && gap_of(call_id) == gaps_.size(); }

}  // namespace tendril::rpc
