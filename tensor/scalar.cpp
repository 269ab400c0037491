#include "tendril/tensor/scalar.h"

#include <ostream>

namespace tendril {

std::ostream& operator<<(std::ostream& out, const Scalar& value) {
  if (value.is_floating()) return out << value.to<double>();
  if (value.category() == kBool) return out << (value.to<bool>() ? "true" : "false");
  return out << value.to<int64_t>();
}

}  // namespace tendril
