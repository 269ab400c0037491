#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "tendril/rpc/transport/sent_frames.h"
#include "tendril/rpc/wire/wire.h"

namespace tendril::rpc {

/// The order in which frames' bytes leave over one connection: whole and first come, first served, but for large
/// requests and replies. Those leave in parts, one large frame after the other, a part whenever nothing else is left,
/// so that a small call waits for one part and not for 64 MB. What has once been returned by `gather` stays the next
/// bytes, in that order, until they are written: TLS needs that. Not thread-safe; does no I/O.
class Outgoing {
 public:
  bool empty() const noexcept { return first_.empty() && large_.empty() && next_.empty(); }
  /// Takes them all.
  void push(FrameList& frames);
  /// Makes the next part, if there is one to make: `gather` may need it. `say` is asked for the count of frames
  /// received (Frame::acknowledge) if it is a frame's last part.
  template <class Say>
  void make_part(const Say& say) {
    if (part_bytes_ == 0 && !large_.empty()) begin_part(next_part_is_last() ? say() : 0);
  }
  /// The frame of which `make_part` would make the last part: what has been pushed by now leaves before its last byte,
  /// and what is pushed later after it, if the part is made before. Null: there is none.
  const Frame* last_part_due() const noexcept;
  /// The next bytes, as many as `out` has room for; returns how many buffers were filled. Valid until `written`.
  std::size_t gather(std::span<ConstBuffer> out) const noexcept;
  /// So many of them have been written. Frames of which the last byte is among them go to `done`, in that order.
  /// Returns the bytes of frames and of parts that are now written whole, and how many large frames are.
  FrameBytes written(std::size_t bytes, FrameList& done);
  /// The connection is lost: what has not been written whole goes to the front of `queue`, to be written again.
  void give_back(FrameList& queue) noexcept;

 private:
  bool next_part_is_last() const noexcept;
  void begin_part(uint32_t acknowledged) noexcept;
  std::size_t headers_of_part() const noexcept;
  bool gather_part(std::size_t skip, std::span<ConstBuffer> out, std::size_t& count) const noexcept;

  FrameList first_;  // whole ones before the part
  FrameList large_;  // the part is of the front one
  FrameList next_;   // whole ones after the part; only where there is one
  std::array<std::byte, kFrameHeaderBytes> part_header_{};
  std::size_t part_bytes_ = 0;                  // of the frame, in the part; 0: there is no part
  std::size_t part_begin_ = kFrameHeaderBytes;  // where the part begins in the frame, or the next one
  std::size_t offset_ = 0;                      // written of the front of first_, else of the part and its headers
};

}  // namespace tendril::rpc
