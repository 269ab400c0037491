#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A worker's rank in its group: 0 <= id < world_size.
using WorkerId = int32_t;

/// Who a worker is. A value: compare it, hash it, send it as an argument.
struct WorkerInfo {
  std::string name = {};  ///< 1 to 127 of [A-Za-z0-9-_:], unique in the group
  WorkerId id = -1;       ///< its rank; -1: nobody

  friend bool operator==(const WorkerInfo&, const WorkerInfo&) = default;
  friend auto operator<=>(const WorkerInfo&, const WorkerInfo&) = default;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& name& id;
  }
};

/// "worker 'ps' (rank 1)", for errors.
inline std::string name_of(const WorkerInfo& worker) {
  return "worker '" + worker.name + "' (rank " + std::to_string(worker.id) + ")";
}

}  // namespace tendril::rpc

TENDRIL_API_END
