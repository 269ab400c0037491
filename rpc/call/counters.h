#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "tendril/rpc/metrics.h"

namespace tendril::rpc::detail {

/// The counting part of Metrics, as it is kept.
struct Counters {
  using Count = std::atomic<uint64_t>;
  Count made{0}, completed{0}, failed{0}, timed_out{0}, cancelled{0};
  Count served{0}, dropped{0}, late_replies{0};
  Count tensors_lent{0}, tensors_borrowed{0};
  Count open{0};  // calls made whose outcome has not been told to the end: what it sets off may still be about to begin
  Count requests_sent{0}, requests_received{0};  // of sessions that have ended
  Count bytes_sent{0}, bytes_received{0};        // of links that are gone
  std::array<Count, LatencyHistogram::buckets> latency{};
  Count latency_ns{0};  // the sum

  static void add(Count& count, uint64_t n = 1) noexcept { count.fetch_add(n, std::memory_order_relaxed); }
};

/// One of `Counters::open`, for as long as it lives.
class OpenCall {
 public:
  explicit OpenCall(Counters& counters) noexcept : open_(&counters.open) { Counters::add(*open_); }
  OpenCall(OpenCall&& other) noexcept : open_(std::exchange(other.open_, nullptr)) {}
  OpenCall& operator=(OpenCall&&) = delete;
  ~OpenCall() {
    if (open_) open_->fetch_sub(1, std::memory_order_release);
  }

 private:
  Counters::Count* open_;
};

}  // namespace tendril::rpc::detail
