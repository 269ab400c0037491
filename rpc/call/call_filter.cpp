#include "tendril/rpc/call/call_filter.h"

#include <utility>

namespace tendril::rpc {

void CallFilter::add_gap(uint64_t first, uint64_t last) {
  gaps_.emplace(last, first);
  if (gaps_.size() > kMaxGaps) gaps_.erase(gaps_.begin());
}

bool CallFilter::admit(uint64_t call_id) {
  if (call_id > last_) {
    if (call_id > last_ + 1) add_gap(last_ + 1, call_id - 1);
    last_ = call_id;
    return true;
  }
  const auto gap = gaps_.lower_bound(call_id);
  if (gap == gaps_.end() || gap->second > call_id) return false;
  const uint64_t first = std::exchange(gap->second, call_id + 1);
  if (call_id == gap->first) gaps_.erase(gap);
  if (first < call_id) add_gap(first, call_id - 1);
  return true;
}

bool CallFilter::seen(uint64_t call_id) const {
  const auto gap = gaps_.lower_bound(call_id);
  return call_id <= last_ && (gap == gaps_.end() || gap->second > call_id);
}

}  // namespace tendril::rpc
