#pragma once

#include <cstddef>

namespace tendril::cuda {

/// N neighbours of T as memory instructions move them: 16 bytes at once, or all of them where they are fewer. What is
/// read or written as one must lie at a multiple of its alignment.
template <class T, int N>
struct alignas(sizeof(T) * std::size_t{N} < 16 ? sizeof(T) * std::size_t{N} : 16) Pack {
  T at[N];
};

/// How many elements of T such an instruction moves.
template <class T>
inline constexpr int kPerLoad = static_cast<int>(16 / sizeof(T));

}  // namespace tendril::cuda
