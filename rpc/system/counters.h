#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include "tendril/rpc/metrics.h"

namespace tendril::rpc::detail {

/// The counters behind Metrics.
struct Counters {
  using Count = std::atomic<uint64_t>;
  Count made{0}, completed{0}, failed{0}, timed_out{0}, cancelled{0};
  Count served{0}, dropped{0}, late_replies{0};
  Count tensors_lent{0}, tensors_borrowed{0};
  Count open{0};  // calls that are pending or whose outcome is being delivered: continuations may be about to start
  Count requests_sent{0}, requests_received{0};  // of sessions that have ended
  Count bytes_sent{0}, bytes_received{0};        // of the links of those sessions
  std::array<Count, LatencyHistogram::buckets> latency{};
  Count latency_ns{0};  // summed over all completed calls

  static void add(Count& count, uint64_t n = 1) noexcept { count.fetch_add(n, std::memory_order_relaxed); }
};

/// Counts one call in `Counters::open` for as long as this object lives.
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
