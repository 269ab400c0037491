#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/cuda/runtime/ipc.h"

/// Messages of kind `lending`, by which the two sides of a session lend each other device memory (device/lender.h,
/// docs/wire.md). Only the encoding is checked here: the receiver must check all sizes and numbers.
namespace tendril::rpc {

/// Offers a segment that the other side may open for one of its devices.
struct LendingOffer {
  uint32_t segment = 0;
  int8_t to = 0;             ///< the other side's device
  cuda::DeviceId home = {};  ///< where the memory is
  uint64_t bytes = 0;        ///< size of the segment
  cuda::IpcHandle handle = {};

  friend bool operator==(const LendingOffer&, const LendingOffer&) = default;
};

/// Answers an offer: the segment has been opened, or why it has not.
struct LendingAnswer {
  uint32_t segment = 0;
  int8_t to = 0;
  bool accepted = false;
  std::string why = {};

  friend bool operator==(const LendingAnswer&, const LendingAnswer&) = default;
};

/// Returns lent places that are not needed any more.
struct LendingReturn {
  std::vector<uint64_t> ids;  ///< LentPlace::id; at least one

  friend bool operator==(const LendingReturn&, const LendingReturn&) = default;
};

using LendingMessage = std::variant<LendingOffer, LendingAnswer, LendingReturn>;

/// Makes a message to send.
Message encode(const LendingMessage& said);
/// Reads a payload. Throws MessageError.
LendingMessage decode_lending(std::span<const std::byte> payload);

}  // namespace tendril::rpc
