#pragma once

#include <cstdint>

#include "tendril/tensor/kernels.h"

/// Indices that a kernel found out of range (docs/cuda.md). A kernel cannot throw: the first to meet such an index
/// notes it in its device's record, in host memory, and changes nothing that it should not: what it would have read is
/// 0, what it would have written is left alone. Whoever waits for the device next throws what is noted.
namespace tendril::cuda {

/// What a kernel notes. The memory is the host's; `state` tells which parts are complete.
struct IndexRecord {
  static constexpr int kEmpty = 0, kClaimed = 1, kComplete = 2;

  int state;
  int dim;
  IndexUse use;
  int64_t value;
  int64_t size;
};

/// What a kernel needs to note it: passed by value.
struct IndexReport {
  IndexRecord* record;  ///< as the device sees it
  int dim;
  IndexUse use;
  int64_t size;  ///< indices lie in [0, size)
};

/// A report for kernels on the current device.
IndexReport index_report(IndexUse use, int dim, int64_t size);

/// Throws IndexError if a kernel that is finished has noted one, and forgets it. To be called by whoever has waited for
/// work of `device`. Thread-safe.
void throw_index_errors(int device);

/// Looks at all of `index` with a kernel that does nothing else.
void note_bad_indices(const View& index, const IndexReport& report);
/// Does so; and under `checked` waits and throws.
void check_indices(const View& index, const IndexReport& report);

}  // namespace tendril::cuda
