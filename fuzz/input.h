#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tendril/rpc/wire/message.h"

/// What the fuzz targets share. Each target is a file with one LLVMFuzzerTestOneInput, which libFuzzer calls with its
/// inventions (TENDRIL_FUZZ) and run_corpus.cpp with the inputs that are kept in corpus/. A target may throw nothing,
/// crash, read out of bounds, hang or take much memory, whatever the bytes.
namespace tendril::fuzz {

/// An input, taken from its front. Where it is used up, numbers are 0 and bytes none.
class Input {
 public:
  Input(const uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const noexcept { return rest_.empty(); }
  template <class T>
  T number() {
    T value{};
    const std::span<const std::byte> taken = bytes(sizeof value);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  /// At most `size` bytes.
  std::span<const std::byte> bytes(std::size_t size) {
    const auto taken = rest_.first(size < rest_.size() ? size : rest_.size());
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// As many as the two bytes before them say.
  std::span<const std::byte> part() { return bytes(number<uint16_t>()); }
  std::span<const std::byte> rest() { return bytes(rest_.size()); }

 private:
  std::span<const std::byte> rest_;
};

/// Ends the program where something that must hold does not.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace tendril::fuzz
