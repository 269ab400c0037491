#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/cuda/runtime/ipc.h"

/// What the two sides of a session say to each other about device memory, in messages of kind `lending`
/// (session/lender.h, docs/wire.md). Nothing here believes anything: sizes and numbers are the reader's to check.
namespace tendril::rpc {

/// The lender has a segment that the other side may open for one of its devices.
struct LendingOffer {
  uint32_t segment = 0;
  int8_t to = 0;             ///< the other side's device
  cuda::DeviceId home = {};  ///< where the memory is
  uint64_t bytes = 0;        ///< of the segment
  cuda::IpcHandle handle = {};

  friend bool operator==(const LendingOffer&, const LendingOffer&) = default;
};

/// The other side has opened it, or why not.
struct LendingAnswer {
  uint32_t segment = 0;
  int8_t to = 0;
  bool accepted = false;
  std::string why = {};

  friend bool operator==(const LendingAnswer&, const LendingAnswer&) = default;
};

/// What was lent and is not needed any more: LentPlace::id, at least one.
struct LendingReturn {
  std::vector<uint64_t> ids;

  friend bool operator==(const LendingReturn&, const LendingReturn&) = default;
};

using LendingMessage = std::variant<LendingOffer, LendingAnswer, LendingReturn>;

/// As a message to be sent.
Message encode(const LendingMessage& said);
/// Reads a payload. Throws MessageError.
LendingMessage decode_lending(std::span<const std::byte> payload);

}  // namespace tendril::rpc
