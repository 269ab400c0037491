#include "tendril/rpc/metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <sstream>

namespace tendril::rpc {

// Bucket 4k + j counts durations from (4 + j) / 4 * 2^k ns up to the next bucket's lower bound.
int LatencyHistogram::bucket_of(std::chrono::nanoseconds duration) noexcept {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(duration.count(), 1));
  const int power = std::bit_width(ns) - 1;
  const uint64_t quarter = power >= 2 ? (ns >> (power - 2)) & 3 : (ns << (2 - power)) & 3;
  return std::min(4 * power + static_cast<int>(quarter), buckets - 1);
}

std::chrono::nanoseconds LatencyHistogram::upper_bound(int bucket) noexcept {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::ceil(std::ldexp(5.0 + bucket % 4, bucket / 4 - 2))));
}

uint64_t LatencyHistogram::total() const noexcept {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  return total;
}

std::chrono::nanoseconds LatencyHistogram::quantile(double q) const noexcept {
  const uint64_t all = total();
  if (all == 0) return {};
  const auto rank = static_cast<uint64_t>(std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(all)));
  uint64_t seen = 0;
  for (int bucket = 0; bucket < buckets; ++bucket) {
    seen += counts[static_cast<std::size_t>(bucket)];
    if (seen >= std::max<uint64_t>(rank, 1)) return upper_bound(bucket);
  }
  return upper_bound(buckets - 1);
}

const char* to_string(CallReceived::State state) noexcept {
  switch (state) {
    case CallReceived::State::waiting_for_references:
      return "waiting for references";
    case CallReceived::State::held_back:
      return "held back";
    case CallReceived::State::queued:
      return "queued";
    case CallReceived::State::running:
      return "running";
    case CallReceived::State::suspended:
      return "suspended";
  }
  return "?";
}

const char* to_string(LiveReference::State state) noexcept {
  switch (state) {
    case LiveReference::State::held:
      return "held";
    case LiveReference::State::unconfirmed:
      return "unconfirmed";
    case LiveReference::State::released:
      return "released";
    case LiveReference::State::lost:
      return "lost";
  }
  return "?";
}

std::string describe(std::vector<HandlerRunning> running) {
  constexpr std::size_t kMost = 8;
  std::sort(running.begin(), running.end(), [](const auto& a, const auto& b) { return a.age > b.age; });
  std::ostringstream text;
  for (std::size_t i = 0; i < std::min(running.size(), kMost); ++i) {
    const HandlerRunning& one = running[i];
    if (i > 0) text << "; ";
    if (one.caller.id < 0) {
      text << one.function;
    } else {
      text << '\'' << one.function << "' for " << name_of(one.caller);
    }
    if (one.age.count() > 0) text << " for " << std::chrono::duration<double>(one.age).count() << " s";
  }
  if (running.size() > kMost) text << "; and " << running.size() - kMost << " more";
  return text.str();
}

}  // namespace tendril::rpc
