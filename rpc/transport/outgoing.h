#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "tendril/rpc/transport/sent_frames.h"
#include "tendril/rpc/wire/wire.h"

namespace tendril::rpc {

/// Decides the order in which frames' bytes leave over one connection. Frames leave whole, first come, first served,
/// except large requests and replies. Those leave in parts, one large frame after the other, a part whenever nothing
/// else is left, so that a small call waits for one part and not for 64 MB. Bytes that `gather` has returned stay next,
/// in that order, until they are written: TLS needs that. Not thread-safe; does no I/O.
class Outgoing {
 public:
  bool empty() const noexcept { return first_.empty() && large_.empty() && next_.empty(); }
  /// Takes all of `frames`.
  void push(FrameList& frames);
  /// Makes the next part if one is due; call it before `gather`. If it is a frame's last part, `say` is called for the
  /// number of frames received (Frame::acknowledge).
  template <class Say>
  void make_part(const Say& say) {
    if (part_bytes_ == 0 && !large_.empty()) begin_part(next_part_is_last() ? say() : 0);
  }
  /// Returns the frame whose last part `make_part` would make, or null. Frames pushed so far leave before its last
  /// byte; frames pushed after that part is made leave after it.
  const Frame* last_part_due() const noexcept;
  /// Fills `out` with the next bytes, as many as fit; returns how many buffers were filled. Valid until `written`.
  std::size_t gather(std::span<ConstBuffer> out) const noexcept;
  /// Records that `bytes` of these have been written. Frames whose last byte is among them move to `done`, in order.
  /// Returns the bytes of frames and parts that are now completely written, and how many large frames are.
  FrameBytes written(std::size_t bytes, FrameList& done);
  /// After a lost connection: moves frames not completely written to the front of `queue`, to be written again.
  void give_back(FrameList& queue) noexcept;

 private:
  bool next_part_is_last() const noexcept;
  void begin_part(uint32_t acknowledged) noexcept;
  std::size_t headers_of_part() const noexcept;
  bool gather_part(std::size_t skip, std::span<ConstBuffer> out, std::size_t& count) const noexcept;

  FrameList first_;  // whole frames before the part
  FrameList large_;  // large frames; the part belongs to the first of them
  FrameList next_;   // whole frames after the part; empty without a part
  std::array<std::byte, kFrameHeaderBytes> part_header_{};
  std::size_t part_bytes_ = 0;                  // bytes of the frame in the part; 0: no part exists
  std::size_t part_begin_ = kFrameHeaderBytes;  // where the part, or else the next one, begins in the frame
  std::size_t offset_ = 0;                      // written bytes of first_'s front, else of the part and its headers
};

}  // namespace tendril::rpc
