#include "tendril/tensor/geometry.h"

#include <ostream>

namespace tendril {

std::ostream& operator<<(std::ostream& out, const Size2& size) { return out << '[' << size.h << ", " << size.w << ']'; }

int64_t window_count(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                     bool ceil_mode) noexcept {
  const int64_t room = input + 2 * padding - dilation * (kernel - 1) - 1;  // from the first place to the last
  const int64_t span = room + (ceil_mode ? stride - 1 : 0);  // the only window may hang over the end itself
  if (span < 0) return 0;
  int64_t count = span / stride + 1;
  if (ceil_mode && (count - 1) * stride >= input + padding) --count;
  return count;
}

}  // namespace tendril
