#pragma once

#include <cstdint>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

// Names that are unique in the group: the worker that made one in the upper 16 bits, a number of that worker below.
using ContextId = uint64_t;  ///< the same on every worker
using MessageId = uint64_t;  ///< a recorded message: its send node here, its recv node there
using PassId = uint64_t;     ///< one backward over a context

/// The id of a worker's number-th context or message.
constexpr uint64_t make_id(rpc::WorkerId worker, uint64_t number) noexcept {
  return static_cast<uint64_t>(worker) << 48 | (number & ((uint64_t{1} << 48) - 1));
}
/// Who made it.
constexpr rpc::WorkerId worker_of(uint64_t id) noexcept { return static_cast<rpc::WorkerId>(id >> 48); }
/// The number within the worker that made it.
constexpr uint64_t number_of(uint64_t id) noexcept { return id & ((uint64_t{1} << 48) - 1); }

/// The contexts that an incarnation of a worker makes are counted in the lower bits of their numbers. Those of one
/// epoch of the group are a series: a worker that joins later cannot take part in them.
inline constexpr int kCountBits = 36;
/// Number of the bits above them, for the epoch.
inline constexpr int kEpochBits = 48 - kCountBits;
/// The series of a context: the worker that made it, and the lower 12 bits of the epoch.
constexpr uint64_t series_of(ContextId id) noexcept { return id >> kCountBits; }
/// Whether the context is of an earlier epoch, by fewer than 2,048 changes of the group.
constexpr bool is_before(ContextId id, uint64_t epoch) noexcept {
  const uint64_t changes = (epoch - series_of(id)) % (uint64_t{1} << kEpochBits);
  return changes > 0 && changes < uint64_t{1} << (kEpochBits - 1);
}
/// The number of contexts that its maker had made with it.
constexpr uint64_t count_of(ContextId id) noexcept { return id & ((uint64_t{1} << kCountBits) - 1); }

}  // namespace tendril::dist::autograd

TENDRIL_API_END
