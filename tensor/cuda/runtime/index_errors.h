#pragma once

#include <cstdint>

#include "tendril/tensor/kernels.h"

/// Indices that a kernel found out of range (docs/cuda.md). A kernel cannot throw: the first to meet such an index
/// notes it in a record in host memory, its device's or its call's (index_owner.h), and changes nothing that it should
/// not: what it would have read is 0, what it would have written is left alone. The owner's next wait throws it.
namespace tendril::cuda {

/// What a kernel notes. The memory is the host's; `state` tells which parts are complete.
struct IndexRecord {
  static constexpr int kEmpty = 0, kClaimed = 1, kComplete = 2;

  int state;
  int dim;
  IndexUse use;
  int64_t value;
  int64_t size;
  uint64_t owner;  ///< of the report that was used: a kernel may end after its call, when the record is another's
};

/// What a kernel needs to note it: passed by value.
struct IndexReport {
  IndexRecord* record;  ///< as the device sees it
  int dim;
  IndexUse use;
  int64_t size;  ///< indices lie in [0, size)
  uint64_t owner;
};

/// A report for kernels that go to the current device and stream, on behalf of the call that this thread works for.
IndexReport index_report(IndexUse use, int dim, int64_t size);

/// Throws IndexError if a kernel that is finished has noted one for whom this thread works, and forgets it. To be
/// called by whoever has waited for work of `device`. Thread-safe.
void throw_index_errors(int device);

/// Looks at all of `index` with a kernel that does nothing else.
void note_bad_indices(const View& index, const IndexReport& report);
/// Does so; and under `checked` waits and throws.
void check_indices(const View& index, const IndexReport& report);
/// Under `checked`: waits for what a kernel has noted, and throws it.
void throw_if_checked();

}  // namespace tendril::cuda
