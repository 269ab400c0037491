#include "tendril/rpc/threads/clock_fit.h"

#include <algorithm>

namespace tendril::rpc::detail {

int64_t ClockFit::to_rank_0(int64_t ns) const noexcept {
  if (last.at_ns <= first.at_ns) return ns + first.offset_ns;
  const double part = static_cast<double>(ns - first.at_ns) / static_cast<double>(last.at_ns - first.at_ns);
  return ns + first.offset_ns +
         static_cast<int64_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(last.offset_ns - first.offset_ns));
}

int64_t ClockFit::error_ns() const noexcept { return std::max(first.error_ns, last.error_ns); }

}  // namespace tendril::rpc::detail
