#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "tendril/rpc/error.h"

/// How much one worker may ask of another before the other has got round to it. Each side states a window in its hello:
/// so many bytes of requests that have not been started it is ready to keep. Credit travels back as requests are
/// started. Other messages are not counted: replies, control messages and pings are always read. Nothing here does I/O.
namespace tendril::rpc {

/// What a request takes up beside its bytes (table entries, queue, headers): without it, requests without arguments
/// would be for free.
inline constexpr uint64_t kRequestOverhead = 1024;
inline constexpr uint64_t kMinRequestWindow = 64 << 10;

/// What a request counts, by the bytes of its frame.
constexpr uint64_t request_cost(uint64_t frame_bytes) noexcept { return frame_bytes + kRequestOverhead; }

/// The receiver says what it has started at the latest when it is such a part of the window.
constexpr uint64_t credit_step(uint64_t window) noexcept { return window / 64; }

/// The sender's account. Not thread-safe.
///
/// A large request, which comes in parts and is passed by others (transport/outgoing.h), counts at the receiver when
/// all of it has come. Here it is *reserved* until its last part leaves. While it is on its way others may pass it that
/// would have no room beside it: an eighth of the window is theirs, however large it is. What is outstanding stays
/// below the window in the order in which last bytes leave, which is that in which the receiver looks:
/// - reserved are 3/8 of the window at most, or one request alone;
/// - of what is reserved others count all, or, of such a one, 3/8;
/// - so beside a reserved one others are less than 31/32 of the window and a small request, which is less than 1/32
///   where the window is kLeastApart. In smaller ones large requests are as all others.
class SendWindow {
 public:
  static constexpr int kMaxDepth = 15;
  static constexpr uint64_t kLeastApart = uint64_t{16} << 20;

  explicit SendWindow(uint64_t window) noexcept : window_(window) {}

  bool large_apart() const noexcept { return window_ >= kLeastApart; }

  /// Whether a request may leave: one of depth 0 within half of the window, deeper ones (CallContext::depth) in what is
  /// left, each depth with a share more than the one before. For handlers at the receiver may wait for the deeper ones,
  /// and start nothing else until they have come. One may always leave when nothing is outstanding, however large.
  bool open(uint64_t cost, int depth = 0) const noexcept {
    return open_beside(std::min(reserved_, reserve_limit()), cost, depth);
  }
  /// Whether a large one may be reserved.
  bool open_large(uint64_t cost, int depth = 0) const noexcept {
    const uint64_t outstanding = sent_ - started_ + reserved_, limit = reserve_limit();
    if (outstanding < limit && cost <= limit - outstanding) return true;
    if (reserved_ > 0) return false;
    return depth == 0 ? outstanding < credit_step(window_) : open_beside(0, cost, depth);
  }
  bool any_reserved() const noexcept { return reserved_ > 0; }
  void reserve(uint64_t cost) noexcept { reserved_ += cost; }
  void reserved_left(uint64_t cost) noexcept { reserved_ -= cost, sent_ += cost; }  ///< its last part leaves
  void sent(uint64_t cost) noexcept { sent_ += cost; }
  void not_sent(uint64_t cost) noexcept { sent_ -= cost; }  ///< after all
  /// The peer has started so much since the connection began. Throws MessageError for more than was sent.
  void credit(uint64_t started) {
    TENDRIL_CHECK_AS(MessageError, started <= sent_, "bad credit: ", started, " bytes of requests started, ", sent_,
                     " were sent");
    if (started > started_) started_ = started;
  }

 private:
  uint64_t reserve_limit() const noexcept { return window_ / 8 * 3; }
  bool open_beside(uint64_t reserved, uint64_t cost, int depth) const noexcept {
    const uint64_t outstanding = sent_ - started_ + reserved;
    if (outstanding < credit_step(window_)) return true;  // nothing, but for what the receiver need not say yet
    if (depth == 0) return outstanding < window_ / 2 && cost <= window_ / 2 - outstanding;
    return outstanding < window_ / 2 + static_cast<uint64_t>(std::min(depth, kMaxDepth)) * (window_ / 32);
  }

  const uint64_t window_;
  uint64_t sent_ = 0, started_ = 0, reserved_ = 0;
};

/// The receiver's account. `received` is for the one reading thread, `started` for any.
class ReceiveWindow {
 public:
  explicit ReceiveWindow(uint64_t window) noexcept : window_(window) {}

  /// Throws MessageError if the peer had no credit for this request.
  void received(uint64_t cost) {
    const uint64_t unstarted = received_ - started_.load(std::memory_order_relaxed);
    TENDRIL_CHECK_AS(MessageError, unstarted < window_, "a request without credit: ", unstarted,
                     " bytes of requests wait to be started, the window is ", window_);
    received_ += cost;
  }

  /// A request is started, or dropped. What the peer is to be told now, if anything: every `credit_step`.
  std::optional<uint64_t> started(uint64_t cost) noexcept {
    const uint64_t total = started_.fetch_add(cost, std::memory_order_relaxed) + cost;
    uint64_t told = told_.load(std::memory_order_relaxed);
    while (total > told && total - told >= credit_step(window_)) {
      if (told_.compare_exchange_weak(told, total, std::memory_order_relaxed)) return total;
    }
    return std::nullopt;
  }

 private:
  const uint64_t window_;
  uint64_t received_ = 0;
  std::atomic<uint64_t> started_{0}, told_{0};
};

}  // namespace tendril::rpc
