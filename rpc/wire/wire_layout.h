#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tendril/rpc/wire/wire.h"

/// Constants of the frame format (docs/wire.md) that its writer and reader share.
namespace tendril::rpc {

inline constexpr uint32_t kFrameMagic = 0x4C524454;     ///< "TDRL"
inline constexpr std::size_t kFlagsOffset = 6;          ///< in the header
inline constexpr std::size_t kPayloadBytesOffset = 64;  ///< in the header
inline constexpr std::size_t kAcknowledgedOffset = 96;  ///< in the header; the checksum follows
inline constexpr std::size_t kForkDescriptorBytes = 56;
inline constexpr uint8_t kTensorRequiresGrad = 1;  ///< flag of a tensor descriptor
inline constexpr uint8_t kTensorLent = 2;          ///< likewise: a LentPlace follows the descriptor; no elements do
inline constexpr std::size_t kLentPlaceBytes = 24;
inline constexpr uint8_t kFrameInParts = 2;  ///< header flag besides MessageFlags: the frame follows in parts
inline constexpr uint8_t kPartOfFrame = 12;  ///< header kind besides MessageKind: a part of that frame follows

constexpr std::size_t tensor_descriptor_bytes(int rank) noexcept { return 16 + 16 * static_cast<std::size_t>(rank); }

constexpr std::size_t padding_to_alignment(std::size_t offset) noexcept {
  return (kTensorAlignment - offset % kTensorAlignment) % kTensorAlignment;
}

/// The header of a frame, for observers that do not read the body.
struct FrameHeader {
  MessageKind kind = MessageKind::request;  ///< undefined for a part
  bool is_part = false;                     ///< the next `body` bytes belong to the frame that is sent in parts
  bool in_parts = false;                    ///< `body` bytes follow in parts
  uint64_t call_id = 0, function = 0;
  uint64_t metadata = 0;  ///< bytes before the payload
  uint64_t payload = 0;   ///< bytes
  uint64_t body = 0;      ///< bytes after the header
};

/// Returns std::nullopt unless the magic, the version and the checksum are right. Checks no limits.
std::optional<FrameHeader> read_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) noexcept;

}  // namespace tendril::rpc
