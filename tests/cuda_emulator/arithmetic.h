#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// What the emulated cuBLAS and cuDNN have in common.
namespace cuda_emulator {

/// What tensor cores do to a float: 10 bits of fraction are left, ties go away from zero, as in cvt.rna.tf32.f32.
inline float to_tf32(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + 0x1000u) & 0xFFFFE000u) : x;
}

/// Writes to both ends of a workspace: what lies there must be nobody else's.
inline void scribble(void* workspace, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t edge = std::min<std::size_t>(bytes, 4096);
  std::memset(workspace, 0xA5, edge);
  std::memset(static_cast<char*>(workspace) + bytes - edge, 0xA5, edge);
}

}  // namespace cuda_emulator
