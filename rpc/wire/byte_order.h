#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tendril/tensor/device.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

static_assert(std::endian::native == std::endian::little,
              "numbers are sent little-endian, as hosts store them; a big-endian host needs byte swaps here");

/// Writes a number little-endian; returns the byte after it.
template <class T>
std::byte* put(std::byte* to, T value) noexcept {
  static_assert(std::is_arithmetic_v<T>);
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

/// Reads a number little-endian.
template <class T>
T get(const std::byte* from) noexcept {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Writes a device as two bytes, its type and its index; returns the byte after them.
inline std::byte* put(std::byte* to, Device device) noexcept {
  return put(put(to, static_cast<uint8_t>(device.type)), device.index);
}

}  // namespace tendril::rpc

TENDRIL_API_END
