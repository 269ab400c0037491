#include "tendril/tensor/dtype.h"

#include <ostream>

namespace tendril {

const char* name_of(DType dtype) noexcept {
  constexpr const char* names[kNumDTypes] = {"float32", "float64", "int64",   "int32",
                                             "uint8",   "bool",    "float16", "bfloat16"};
  return names[static_cast<int>(dtype)];
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

DType promote(DType a, DType b) noexcept {
  if (a == b) return a;
  // Ranks order the types by category, then by width. Two types of one rank are the half types, or equal.
  constexpr uint8_t ranks[kNumDTypes] = {5, 6, 3, 2, 1, 0, 4, 4};
  const uint8_t ra = ranks[static_cast<int>(a)], rb = ranks[static_cast<int>(b)];
  if (ra == rb) return kFloat32;
  return ra > rb ? a : b;
}

Half::Half(float value) noexcept {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(word >> 16 & 0x8000);
  const uint32_t magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // NaN: quiet, with what fits of the payload
    bits = static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  } else if (magnitude >= 0x477ff000) {  // rounds to 65536 or more: infinity
    bits = sign | 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal: rebias the exponent, round to nearest even
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    bits = static_cast<uint16_t>(sign | (rounded - (112u << 23)) >> 13);
  } else {  // subnormal or zero: the adder rounds for us (0.5 has the last place 2^-24)
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
}

Half::operator float() const noexcept {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
}

}  // namespace tendril
