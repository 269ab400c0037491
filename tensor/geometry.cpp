#include "tendril/tensor/geometry.h"

#include <ostream>

namespace tendril {

std::ostream& operator<<(std::ostream& out, const Size2& size) { return out << '[' << size.h << ", " << size.w << ']'; }

int64_t window_count(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                     bool ceil_mode) noexcept {
  int64_t padded, reach, room, span;  // what leaves 64 bits fits no image
  if (__builtin_mul_overflow(padding, 2, &padded) || __builtin_add_overflow(padded, input, &padded) ||
      __builtin_mul_overflow(dilation, kernel - 1, &reach)) {
    return 0;
  }
  // From the first place to the last. The only window may hang over the end itself.
  if (__builtin_sub_overflow(padded - 1, reach, &room) ||
      __builtin_add_overflow(room, ceil_mode ? stride - 1 : 0, &span) || span < 0) {
    return 0;
  }
  int64_t count = span / stride + 1;
  if (ceil_mode && (count - 1) * stride >= input + padding) --count;
  return count;
}

}  // namespace tendril
