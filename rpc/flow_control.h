#pragma once

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

/// The sender's account. Not thread-safe.
class SendWindow {
 public:
  explicit SendWindow(uint64_t window) noexcept : window_(window) {}

  /// Whether the next request may leave. One may always leave when nothing is outstanding, however large.
  bool open() const noexcept { return sent_ - started_ < window_; }
  void sent(uint64_t cost) noexcept { sent_ += cost; }
  /// The peer has started so much since the connection began. Throws MessageError for more than was sent.
  void credit(uint64_t started) {
    TENDRIL_CHECK_AS(MessageError, started <= sent_, "bad credit: ", started, " bytes of requests started, ", sent_,
                     " were sent");
    if (started > started_) started_ = started;
  }

 private:
  const uint64_t window_;
  uint64_t sent_ = 0, started_ = 0;
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

  /// A request is started, or dropped. What the peer is to be told now, if anything: every quarter of the window.
  std::optional<uint64_t> started(uint64_t cost) noexcept {
    const uint64_t total = started_.fetch_add(cost, std::memory_order_relaxed) + cost;
    uint64_t told = told_.load(std::memory_order_relaxed);
    while (total > told && total - told >= window_ / 4) {
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
