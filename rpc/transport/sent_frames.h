#pragma once

#include <atomic>
#include <cstdint>
#include <list>

#include "tendril/rpc/threads/recycled.h"
#include "tendril/rpc/wire/wire.h"

/// Lets a session continue after a lost connection without losing a frame or delivering one twice. Each direction
/// counts its frames, 1, 2, 3, ... since the session began. The number is not sent: a stream keeps order, so both sides
/// count alike. The sender keeps written frames until the receiver acknowledges them: each frame's header contains the
/// number of frames received in the other direction. On a new connection, each side first states how many it has
/// received (hello.h), and the other continues from there. Nothing here does I/O.
namespace tendril::rpc {

using FrameList = std::list<Frame, detail::RecyclingAllocator<Frame>>;

/// The sizes of frames, separately for those that leave in parts (Frame::goes_in_parts) and others.
struct FrameBytes {
  uint64_t small = 0, large = 0;
  std::size_t large_frames = 0;

  uint64_t total() const noexcept { return small + large; }
  void add(const Frame& frame) noexcept {
    (frame.goes_in_parts() ? large : small) += frame.size();
    large_frames += frame.goes_in_parts();
  }
  FrameBytes& operator+=(const FrameBytes& other) noexcept {
    small += other.small;
    large += other.large;
    large_frames += other.large_frames;
    return *this;
  }
  FrameBytes& operator-=(const FrameBytes& other) noexcept {
    small -= other.small;
    large -= other.large;
    large_frames -= other.large_frames;
    return *this;
  }
};

/// The frames that were completely written and have not been acknowledged. Not thread-safe.
class SentFrames {
 public:
  /// Records that the writer has taken `frames` more frames: the receiver may acknowledge them before `written` is
  /// called.
  void taken(std::size_t frames) noexcept { with_writer_ += frames; }
  /// Records that these were completely written, in this order. Returns those that are already acknowledged.
  FrameList written(FrameList& frames) {
    with_writer_ -= frames.size();
    for (const Frame& frame : frames) bytes_.add(frame);
    kept_.splice(kept_.end(), frames);
    return forget();
  }
  /// Records that the writer has stopped, and has released the frames that it had not completely written.
  void stopped() noexcept { with_writer_ = 0; }
  /// Records that the receiver has `count` frames of the session (modulo 2^32). Returns those that need not be kept any
  /// more. Throws MessageError if the count exceeds the frames sent.
  FrameList acknowledged(uint32_t count) {
    const uint32_t more = count - static_cast<uint32_t>(received_);
    const uint64_t on_their_way = forgotten_ + kept_.size() + with_writer_ - received_;
    TENDRIL_CHECK_AS(MessageError, more <= on_their_way, "bad acknowledgement: ", more, " more frames, but only ",
                     on_their_way, " are in flight");
    received_ += more;
    return forget();
  }
  /// Continues on a new connection, with the writer stopped: the receiver has `count` frames of the session. The others
  /// move to the front of `queue`, to be written again. Returns those that need not be kept. Throws MessageError if the
  /// count is impossible.
  FrameList resumed(uint64_t count, FrameList& queue) {
    TENDRIL_CHECK_AS(MessageError, count >= received_ && count <= forgotten_ + kept_.size(),
                     "the other side has received ", count, " frames, expected ", received_, " to ",
                     forgotten_ + kept_.size());
    received_ = count;
    FrameList done = forget();
    queue.splice(queue.begin(), kept_);
    bytes_ = {};
    return done;
  }

  /// Returns all kept frames, at the end of the session.
  FrameList drop() noexcept { return std::move(kept_); }

  const FrameBytes& bytes() const noexcept { return bytes_; }  ///< sizes of the kept frames
  uint64_t received() const noexcept { return received_; }     ///< frames of the session known to have been received

 private:
  FrameList forget() {
    FrameList done;
    while (forgotten_ < received_ && !kept_.empty()) {
      FrameBytes gone;
      gone.add(kept_.front());
      bytes_ -= gone;
      done.splice(done.end(), kept_, kept_.begin());
      ++forgotten_;
    }
    return done;
  }

  FrameList kept_;               // the frames after the first `forgotten_`
  std::size_t with_writer_ = 0;  // frames that the writer has, after the kept ones
  FrameBytes bytes_;
  uint64_t forgotten_ = 0, received_ = 0;  // counts since the session began
};

/// Counts received frames, and decides when to acknowledge them if no other frame leaves that could. Only the reading
/// thread may call `received`; any thread may call the other functions.
class ReceivedFrames {
 public:
  static constexpr uint64_t kMaxUnsaidFrames = 64;
  static constexpr uint64_t kMaxUnsaidBytes = 1 << 20;

  /// Counts a frame. Returns true if the other side keeps so much that an acknowledgement must be sent now.
  bool received(uint64_t bytes) noexcept {
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const uint64_t unsaid_bytes = unacknowledged_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    return unsaid_bytes >= kMaxUnsaidBytes || count() - said_.load(std::memory_order_relaxed) >= kMaxUnsaidFrames;
  }
  /// Returns the count for the header of a frame that leaves now.
  uint32_t say() noexcept {
    const uint64_t count = this->count();
    if (said_.load(std::memory_order_relaxed) != count) {
      said_.store(count, std::memory_order_relaxed);
      unacknowledged_bytes_.store(0, std::memory_order_relaxed);
    }
    return static_cast<uint32_t>(count);
  }
  uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> count_{0}, said_{0}, unacknowledged_bytes_{0};
};

}  // namespace tendril::rpc
