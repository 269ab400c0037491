#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "tendril/tensor/error.h"

/// The numbers of the format that reader and writer share.
namespace tendril::files::detail::zip {

inline constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                          kLocator64 = 0x07064b50;
inline constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
inline constexpr uint16_t kExtra64 = 1;         ///< the extra field with 64-bit sizes
inline constexpr uint16_t kExtraFill = 0x4246;  ///< one that means nothing, of any length, as PyTorch's
inline constexpr uint32_t kLarge = 0xffffffff;  ///< "see the 64-bit field"

/// Takes little-endian numbers from its front. Throws Error that begins with `what` where there are no more.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, const std::string& what) : rest_(bytes), what_(what) {}

  template <class T>
  T take() {
    T value;
    const auto bytes = take_bytes(sizeof value);
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take_bytes(uint64_t count) {
    TENDRIL_CHECK(count <= rest_.size(), what_, ": is cut short or damaged: a header ends early");
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::string take_text(uint64_t count) {
    const auto bytes = take_bytes(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool empty() const noexcept { return rest_.empty(); }
  std::size_t size() const noexcept { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  const std::string& what_;
};

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace tendril::files::detail::zip
