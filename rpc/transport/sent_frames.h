#pragma once

#include <atomic>
#include <cstdint>
#include <list>

#include "tendril/rpc/call/recycled.h"
#include "tendril/rpc/wire/wire.h"

/// How a session goes on after its connection was lost, neither losing a frame nor delivering one twice. Each direction
/// counts its frames, 1, 2, 3, ... since the session began; the number is not on the wire, for a stream keeps order, so
/// both sides count alike. The sender keeps what it has written until the receiver says that it has come: in each
/// frame's header is the count of those received in the other direction. On a new connection each side first says how
/// many it has received (hello.h), and the other goes on from there. Nothing here does I/O.
namespace tendril::rpc {

using FrameList = std::list<Frame, detail::RecyclingAllocator<Frame>>;

/// What frames take up: those that leave in parts (Frame::goes_in_parts) apart from others.
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

/// The frames that were written whole and are not known to have come. Not thread-safe.
class SentFrames {
 public:
  /// The writer has taken so many more frames: the receiver may have them before it is known here that they are
  /// written.
  void taken(std::size_t frames) noexcept { in_hand_ += frames; }
  /// These have been written whole, in this order. Returns those that have come already.
  FrameList written(FrameList& frames) {
    in_hand_ -= frames.size();
    for (const Frame& frame : frames) bytes_.add(frame);
    kept_.splice(kept_.end(), frames);
    return forget();
  }
  /// The writer stops; what it has not written whole it gives back.
  void stopped() noexcept { in_hand_ = 0; }
  /// The receiver has so many of all (modulo 2^32). Returns those that need not be kept any more. Throws MessageError
  /// for more than can be.
  FrameList acknowledged(uint32_t count) {
    const uint32_t more = count - static_cast<uint32_t>(received_);
    const uint64_t on_their_way = forgotten_ + kept_.size() + in_hand_ - received_;
    TENDRIL_CHECK_AS(MessageError, more <= on_their_way, "bad acknowledgement: of ", more, " more frames, but only ",
                     on_their_way, " are on their way");
    received_ += more;
    return forget();
  }
  /// A new connection, with the writer stopped: the receiver has so many of all. The rest is to be written again: it
  /// goes to the front of `queue`. Returns those that need not be kept. Throws MessageError for a count that cannot be.
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

  /// The end: nothing is kept any more.
  FrameList drop() noexcept { return std::move(kept_); }

  const FrameBytes& bytes() const noexcept { return bytes_; }  ///< of those that are kept
  uint64_t received() const noexcept { return received_; }     ///< of all, by the receiver, as far as is known

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

  FrameList kept_;           // those after `forgotten_`
  std::size_t in_hand_ = 0;  // of the writer, after them
  FrameBytes bytes_;
  uint64_t forgotten_ = 0, received_ = 0;  // of all
};

/// What was received, and when to say so if no frame leaves that could say it. `received` is for the reading thread,
/// the rest for any.
class ReceivedFrames {
 public:
  static constexpr uint64_t kMaxUnsaidFrames = 64;
  static constexpr uint64_t kMaxUnsaidBytes = 1 << 20;

  /// True: the other side keeps so much that it must be told now.
  bool received(uint64_t bytes) noexcept {
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const uint64_t unsaid_bytes = unsaid_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    return unsaid_bytes >= kMaxUnsaidBytes || count() - said_.load(std::memory_order_relaxed) >= kMaxUnsaidFrames;
  }
  /// What a frame that leaves now is to say.
  uint32_t say() noexcept {
    const uint64_t count = this->count();
    if (said_.load(std::memory_order_relaxed) != count) {
      said_.store(count, std::memory_order_relaxed);
      unsaid_bytes_.store(0, std::memory_order_relaxed);
    }
    return static_cast<uint32_t>(count);
  }
  uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> count_{0}, said_{0}, unsaid_bytes_{0};
};

}  // namespace tendril::rpc
