#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A worker's rank in its group: 0 <= id < world_size.
using WorkerId = int32_t;

/// Identifies a worker of a group. A value that can be compared, or sent as an argument.
struct WorkerInfo {
  std::string name = {};  ///< 1 to 127 of [A-Za-z0-9-_:], unique in the group
  WorkerId id = -1;       ///< its rank; -1: no worker

  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
  friend auto operator<=>(const WorkerInfo&, const WorkerInfo&) = default;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& name& id;
  }
};

/// Describes a worker for errors: "worker 'ps' (rank 1)".
inline std::string name_of(const WorkerInfo& worker) {
  return "worker '" + worker.name + "' (rank " + std::to_string(worker.id) + ")";
}

}  // namespace tendril::rpc

TENDRIL_API_END
