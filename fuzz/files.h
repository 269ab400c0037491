#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/state_dict.h"

/// What the targets of file readers share. They may throw Error, and nothing else.
namespace tendril::fuzz {

inline std::shared_ptr<files::detail::Bytes> file_of(const uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  return files::detail::Bytes::of(std::move(bytes));
}

/// Reads every element. Views that show few elements many times may be as large as they like: those are only looked at.
inline void touch(const Tensor& tensor) {
  constexpr int64_t kMost = 1 << 16;
  if (tensor.numel() > kMost) return;
  const Tensor copy = raw::cast(tensor, kFloat64);
  if (copy.numel() != tensor.numel()) __builtin_trap();
}
inline void touch(const StateDict& dict) {
  for (const auto& [name, tensor] : dict) touch(tensor);
}

}  // namespace tendril::fuzz
