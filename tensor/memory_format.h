#pragma once

#include <cstdint>
#include <iosfwd>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// The order in which elements without gaps lie in memory. A tensor knows it by its strides alone.
enum class MemoryFormat : uint8_t {
  contiguous,     ///< row-major: the last dimension's elements lie side by side
  channels_last,  ///< of four dimensions [n, c, h, w]: row-major as [n, h, w, c], so that a pixel's channels lie so
};

/// Prints `contiguous` or `channels_last`.
std::ostream& operator<<(std::ostream& out, MemoryFormat format);

}  // namespace tendril

TENDRIL_API_END
