#pragma once

#include <cstddef>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// The current numbers of references of a worker. All are zero if none cross workers.
struct RRefCounters {
  std::size_t owner_rrefs = 0;       ///< objects of this worker that other workers refer to
  std::size_t forks = 0;             ///< users of these objects on other workers
  std::size_t users = 0;             ///< references of this worker to objects of other workers
  std::size_t pending_users = 0;     ///< those of `users` that their owners have not yet confirmed
  std::size_t pending_children = 0;  ///< forks in messages whose receipt has not yet been confirmed

  bool none() const noexcept { return owner_rrefs + forks + users + pending_users + pending_children == 0; }
  friend bool operator==(const RRefCounters&, const RRefCounters&) = default;
};

}  // namespace tendril::rpc

TENDRIL_API_END
