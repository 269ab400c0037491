#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "tendril/rpc/error.h"

/// Flow control of requests. Each side announces a window in its hello: how many bytes of requests it is ready to keep
/// before they are started. It sends credit back as requests are started. Other messages (replies, control messages,
/// pings) are not counted and are always read. Nothing here does I/O.
namespace tendril::rpc {

/// The memory that a request uses beside its bytes (table entries, queue, headers). Without it, requests without
/// arguments would cost nothing.
inline constexpr uint64_t kRequestOverhead = 1024;

/// Returns the cost of a request whose frame has this size.
constexpr uint64_t request_cost(uint64_t frame_bytes) noexcept { return frame_bytes + kRequestOverhead; }

/// Returns how much the receiver may start before it must send credit.
constexpr uint64_t credit_step(uint64_t window) noexcept { return window / 64; }

/// The sender's account. Not thread-safe.
///
/// A large request is sent in parts, and other requests may overtake it (transport/outgoing.h). The receiver counts it
/// when all of it has arrived. Here it is *reserved* until its last part leaves. However large it is, an eighth of the
/// window remains for the requests that overtake it. The outstanding cost stays below the window if requests are
/// counted in the order in which their last bytes leave, which is the receiver's order:
/// - The reserved cost is at most 3/8 of the window, unless a single larger request is reserved.
/// - For other requests, the reserved cost counts in full, but at most as 3/8 of the window.
/// - So beside a reserved request, the cost of the others is less than 31/32 of the window plus one small request.
///   That is less than 1/32 if the window is at least kLeastApart. In smaller windows, large requests are not treated
///   apart.
class SendWindow {
 public:
  static constexpr int kMaxDepth = 15;
  static constexpr uint64_t kLeastApart = uint64_t{16} << 20;

  explicit SendWindow(uint64_t window) noexcept : window_(window) {}

  bool large_apart() const noexcept { return window_ >= kLeastApart; }

  /// Whether a request may leave. Requests of depth 0 use half of the window. Each deeper level (CallContext::depth)
  /// may use one more share of the other half, because handlers at the receiver may wait for deeper requests, and start
  /// nothing else until these arrive. If nothing is outstanding, any request may leave, however large it is.
  bool open(uint64_t cost, int depth = 0) const noexcept {
    return open_beside(std::min(reserved_, reserve_limit()), cost, depth);
  }
  /// Whether a large request may be reserved.
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
  void not_sent(uint64_t cost) noexcept { sent_ -= cost; }  ///< undoes `sent`
  /// The peer has started this much since the connection began. Throws MessageError if that is more than was sent.
  void credit(uint64_t started) {
    TENDRIL_CHECK_AS(MessageError, started <= sent_, "bad credit: ", started, " bytes of requests started, ", sent_,
                     " were sent");
    if (started > started_) started_ = started;
  }

 private:
  uint64_t reserve_limit() const noexcept { return window_ / 8 * 3; }
  bool open_beside(uint64_t reserved, uint64_t cost, int depth) const noexcept {
    const uint64_t outstanding = sent_ - started_ + reserved;
    if (outstanding < credit_step(window_)) return true;  // nothing, or less than the receiver must report
    if (depth == 0) return outstanding < window_ / 2 && cost <= window_ / 2 - outstanding;
    return outstanding < window_ / 2 + static_cast<uint64_t>(std::min(depth, kMaxDepth)) * (window_ / 32);
  }

  const uint64_t window_;
  uint64_t sent_ = 0, started_ = 0, reserved_ = 0;
};

/// The receiver's account. Only the reading thread calls `received`; any thread may call `started`.
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

  /// A request is started or dropped. Returns the total to report to the peer now, or nothing: credit is reported once
  /// per `credit_step`.
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
