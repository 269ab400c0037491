#pragma once

#include <cstdint>

#include "tendril/tensor/cuda/runtime/index_errors.h"

/// The records themselves, in memory of the host that devices see: for index_errors.cpp and index_owner.cpp.
namespace tendril::cuda {

/// A record, as host and device see it.
struct SharedRecord {
  IndexRecord* host = nullptr;
  IndexRecord* device = nullptr;
};

/// An empty record for kernels of the current device. Taken from pages that are kept for ever: the driver may be gone
/// before static objects are. Thread-safe.
SharedRecord take_record();
/// No kernel knows it any more. Thread-safe.
void give_record_back(SharedRecord record) noexcept;

/// Throws IndexError if the record is complete and `owner`'s, saying, if it is `late`, that an earlier operation is
/// meant; the record is empty then. What another owner left there is forgotten. Of several threads, one throws.
void throw_noted(const SharedRecord& record, uint64_t owner, int device, bool late);

/// Of the work that no call issued.
void throw_index_errors_of_process(int device, bool late);

/// The record of the call that this thread works for, on the current device and stream; `owner` 0 and null for none.
struct OwnedRecord {
  SharedRecord record;
  uint64_t owner = 0;
};
OwnedRecord record_of_call();

}  // namespace tendril::cuda
