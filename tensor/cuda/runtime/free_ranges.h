#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

namespace tendril::cuda {

/// What is free of a stretch of memory: offsets and lengths alone, so that it is tested without a device. Free
/// neighbours are one range. Not thread-safe.
class FreeRanges {
 public:
  explicit FreeRanges(std::size_t bytes) { free_.emplace(0, bytes); }

  /// The first place of so many bytes (> 0); nothing where there is none.
  std::optional<std::size_t> take(std::size_t bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto [offset, length] = *range;
      if (length < bytes) continue;
      free_.erase(range);
      if (length > bytes) free_.emplace(offset + bytes, length - bytes);
      return offset;
    }
    return std::nullopt;
  }
  /// What `take` gave, with the bytes that were asked for.
  void put(std::size_t offset, std::size_t bytes) {
    auto after = free_.lower_bound(offset);
    if (after != free_.end() && offset + bytes == after->first) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(offset, bytes);
  }
  std::size_t ranges() const noexcept { return free_.size(); }

 private:
  std::map<std::size_t, std::size_t> free_;  // length by offset
};

}  // namespace tendril::cuda
