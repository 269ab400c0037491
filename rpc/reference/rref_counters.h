#pragma once

#include <cstddef>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// What a worker holds of references right now. All zero when nobody refers to anything.
struct RRefCounters {
  std::size_t owner_rrefs = 0;       ///< objects of this worker that others refer to
  std::size_t forks = 0;             ///< users of them, on other workers
  std::size_t users = 0;             ///< references of this worker to others' objects
  std::size_t pending_users = 0;     ///< of these: not yet confirmed by their owner
  std::size_t pending_children = 0;  ///< forks in messages whose receiver has not yet said that it has them

  bool none() const noexcept { return owner_rrefs + forks + users + pending_users + pending_children == 0; }
  friend bool operator==(const RRefCounters&, const RRefCounters&) = default;
};

}  // namespace tendril::rpc

TENDRIL_API_END
