#include "tendril/tensor/dims.h"

#include <ostream>

namespace tendril {

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '[';
  for (int i = 0; i < dims.size(); ++i) out << (i ? ", " : "") << dims[i];
  return out << ']';
}

int64_t numel_of(const Dims& sizes) {
  int64_t numel = 1;
  bool overflow = false;
  bool zero = false;
  for (const int64_t size : sizes) {
    TENDRIL_CHECK_AS(ShapeError, size >= 0, "sizes must not be negative, got ", sizes);
    zero |= size == 0;
    overflow |= __builtin_mul_overflow(numel, size, &numel);
  }
  if (zero) return 0;
  TENDRIL_CHECK_AS(ShapeError, !overflow, "too many elements: the product of ", sizes, " is over 2^63 - 1");
  return numel;
}

Dims broadcast_shapes(const Dims& a, const Dims& b, const char* op) {
  // task 1.1: the sizes of what a and b give together, or a ShapeError with both and the first sizes that differ
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const int shift = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    const int64_t s = shorter[i];
    int64_t& r = result[shift + i];
    if (r == s || s == 1) continue;
    TENDRIL_CHECK_AS(ShapeError, r == 1, op, ": shapes ", a, " and ", b, " do not broadcast: sizes ",
                     a[a.size() - shorter.size() + i], " and ", b[b.size() - shorter.size() + i], " in dimension ",
                     shift + i, " differ and neither is 1");
    r = s;
  }
  return result;
  // end of task
}

int wrap_dim(int64_t dim, int ndim, const char* op) {
  const int64_t range = std::max(ndim, 1);
  TENDRIL_CHECK_AS(IndexError, dim >= -range && dim < range, op, ": dimension ", dim, " is out of range, expected ",
                   -range, " to ", range - 1, " for a tensor of ", ndim, " dimensions");
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

}  // namespace tendril
