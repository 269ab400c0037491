#include <algorithm>

#include "tendril/rpc/session/agent_listener.h"

namespace tendril::rpc {

bool CallFilter::admit(uint64_t call_id) {
  if (call_id > last_) {
    if (call_id > last_ + 1) remember_missing(last_ + 1, call_id - 1);
    last_ = call_id;
    return true;
  }
  const auto found = std::lower_bound(missing_.begin(), missing_.end(), call_id);
  if (found == missing_.end() || *found != call_id) return false;
  missing_.erase(found);
  return true;
}

bool CallFilter::seen(uint64_t call_id) const {
  return call_id <= last_ && !std::binary_search(missing_.begin(), missing_.end(), call_id);
}

void CallFilter::remember_missing(uint64_t first, uint64_t last) {
  // A peer that jumps ahead must not make this grow without bounds: the oldest are forgotten.
  if (last - first >= kMaxMissing) {
    missing_.clear();
    first = last - kMaxMissing + 1;
  }
  for (uint64_t id = first; id <= last; ++id) missing_.push_back(id);
  if (missing_.size() > kMaxMissing) {
    missing_.erase(missing_.begin(), missing_.end() - static_cast<std::ptrdiff_t>(kMaxMissing));
  }
}

}  // namespace tendril::rpc
