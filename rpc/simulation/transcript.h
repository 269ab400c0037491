#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tendril/rpc/clock.h"

namespace tendril::rpc::detail {

/// The log of a simulation: one line per event, and a digest of all lines. Two runs with the same seed have the same
/// transcript.
class Transcript {
 public:
  explicit Transcript(bool keep) : keep_(keep) {}

  void note(Clock::duration since_start, int rank, std::string_view what);
  uint64_t digest() const noexcept { return digest_; }
  uint64_t lines() const noexcept { return lines_; }
  std::string take() { return std::move(text_); }

 private:
  const bool keep_;
  uint64_t digest_ = 0xcbf29ce484222325;  // FNV-1a
  uint64_t lines_ = 0;
  std::string text_;
};

uint64_t fnv1a(std::string_view bytes, uint64_t digest = 0xcbf29ce484222325) noexcept;

}  // namespace tendril::rpc::detail
