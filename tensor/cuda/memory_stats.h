#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::cuda {

/// Counters of a device's caching allocator, in bytes and blocks. Live: handed out and not yet released.
struct MemoryStats {
  int64_t live_bytes = 0;      ///< as rounded up
  int64_t peak_bytes = 0;      ///< the most that were live since the start, or since reset_peak_memory
  int64_t reserved_bytes = 0;  ///< taken from the driver: live, cached, or waiting for a stream
  int64_t live_blocks = 0;
  int64_t segments = 0;       ///< what `reserved_bytes` consists of
  int64_t allocations = 0;    ///< blocks handed out since the start
  int64_t driver_calls = 0;   ///< segments taken since the start: stands still in a program that has warmed up
  int64_t out_of_memory = 0;  ///< how often the cache had to be given back to go on
};

}  // namespace tendril::cuda

TENDRIL_API_END
