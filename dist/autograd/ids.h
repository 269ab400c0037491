#pragma once

#include <cstdint>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

// Ids that are unique in the group: the upper 16 bits are the worker that made the id, the rest is a number of that
// worker.
using ContextId = uint64_t;  ///< the same on every worker
using MessageId = uint64_t;  ///< a recorded message; its send node and its recv node have the same id
using PassId = uint64_t;     ///< one backward over a context

/// The id of a worker's number-th context or message.
constexpr uint64_t make_id(rpc::WorkerId worker, uint64_t number) noexcept {
  return static_cast<uint64_t>(worker) << 48 | (number & ((uint64_t{1} << 48) - 1));
}
/// The rank of the worker that made the id.
constexpr rpc::WorkerId worker_of(uint64_t id) noexcept { return static_cast<rpc::WorkerId>(id >> 48); }
/// The number that this worker chose.
constexpr uint64_t number_of(uint64_t id) noexcept { return id & ((uint64_t{1} << 48) - 1); }

/// Number of bits that count the contexts of one incarnation of a worker: the lower bits of a context's number. The
/// contexts that a worker makes in one epoch of the group are a series. A worker that joins later cannot take part in
/// them.
inline constexpr int kCountBits = 36;
/// Number of bits above the count, which hold the epoch.
inline constexpr int kEpochBits = 48 - kCountBits;
/// The series of a context: the worker that made it, and the lower 12 bits of the epoch.
constexpr uint64_t series_of(ContextId id) noexcept { return id >> kCountBits; }
/// Whether the context was made in an earlier epoch than `epoch`, by fewer than 2,048 changes of the group.
constexpr bool is_before(ContextId id, uint64_t epoch) noexcept {
  const uint64_t changes = (epoch - series_of(id)) % (uint64_t{1} << kEpochBits);
  return changes > 0 && changes < uint64_t{1} << (kEpochBits - 1);
}
/// The position of the context among the contexts of its maker's incarnation, counted from 1.
constexpr uint64_t count_of(ContextId id) noexcept { return id & ((uint64_t{1} << kCountBits) - 1); }

}  // namespace tendril::dist::autograd

TENDRIL_API_END
