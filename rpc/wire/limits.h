#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Limits of one message. Checked before it is sent (against the peer's limits) and, from the header, before anything
/// is allocated for a received one.
struct Limits {
  uint64_t max_extension_bytes = 64 << 10;
  uint64_t max_payload_bytes = 256 << 20;
  uint64_t max_tensor_bytes = uint64_t{16} << 30;  ///< all tensors of a message, with broadcast dimensions expanded
  uint64_t max_tensors = 1 << 16;
  uint64_t max_references = 1 << 16;

  friend bool operator==(const Limits&, const Limits&) = default;
};

}  // namespace tendril::rpc

TENDRIL_API_END
