#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Rank 0's steady clock minus this process's steady clock, at a time of the latter.
struct ClockOffset {
  int64_t at_ns = 0;
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  ///< the true offset differs from `offset_ns` by at most this
};

/// Converts from this process's steady clock to rank 0's: a line through two measurements, because clocks drift.
/// Outside them, the offset of the nearer measurement applies.
struct ClockFit {
  ClockOffset first, last;

  int64_t to_rank_0(int64_t ns) const noexcept;
  int64_t error_ns() const noexcept;  ///< between the two measurements
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
