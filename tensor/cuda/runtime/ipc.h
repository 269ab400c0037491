#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Device memory that other processes of this host may read while this one lives (CUDA IPC), and theirs. Which process
/// may read when is rpc/'s affair (docs/decisions/0030). Any thread may call anything here.
namespace tendril::cuda {

/// A device's UUID: the same in every process, whatever number it has there.
using DeviceId = std::array<std::byte, 16>;
/// Throws Error without that device. Makes no context.
DeviceId device_id(int device);

/// What another process opens a segment by: a cudaIpcMemHandle_t.
using IpcHandle = std::array<std::byte, 64>;

/// Memory of one cudaMalloc that is cut into blocks for others. It is never given back: to free what another process
/// has open is undefined, and nobody can be asked whether he has closed it.
struct SharedSegment {
  uint32_t number = 0;  ///< 1, 2, 3, ... in this process
  int device = 0;
  std::size_t bytes = 0;
  IpcHandle handle{};
};

/// A part of a segment, as long as it lives. No stream owns it: before it goes whoever writes or reads it must have
/// ended, on whichever side.
class SharedBlock {
 public:
  /// Nothing where there is no memory for it: what is shared of one device is at most 1 GiB. Also where the device
  /// cannot share. Makes no context but the device's.
  static std::optional<SharedBlock> take(std::size_t bytes, int device) noexcept;
  SharedBlock(SharedBlock&& other) noexcept;
  SharedBlock& operator=(SharedBlock&&) = delete;
  ~SharedBlock();

  void* data() const noexcept;
  std::size_t offset() const noexcept { return offset_; }
  const SharedSegment& segment() const noexcept;

 private:
  struct Segments;
  struct Segment;
  SharedBlock(Segment* segment, std::size_t offset, std::size_t bytes) noexcept
      : segment_(segment), offset_(offset), bytes_(bytes) {}

  Segment* segment_ = nullptr;
  std::size_t offset_ = 0, bytes_ = 0;
};

/// Another process's segment, mapped for work of one of this process's devices. What reads it must have ended before
/// this goes.
class OpenedSegment {
 public:
  /// `home` is the device that the memory is on, `device` the one of this process that will read it. Throws Error: the
  /// handle leads nowhere (any more), or to less than `bytes`; the device is not of this process, or cannot reach it.
  OpenedSegment(const DeviceId& home, const IpcHandle& handle, std::size_t bytes, int device);
  OpenedSegment(const OpenedSegment&) = delete;
  OpenedSegment& operator=(const OpenedSegment&) = delete;
  ~OpenedSegment();

  const std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_;
  int device_;
};

}  // namespace tendril::cuda

TENDRIL_API_END
