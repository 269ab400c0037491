#include "tendril/tensor/scalar.h"

#include <ostream>

#include "tendril/tensor/error.h"

namespace tendril {

bool Scalar::fits(DType dtype) const noexcept {
  if (dtype == kInt64) return in_range<int64_t>();
  if (dtype == kInt32) return in_range<int32_t>();
  if (dtype == kUInt8) return in_range<uint8_t>() || (!is_floating() && integer_ >= -UINT8_MAX && integer_ < 0);
  return true;
}

void Scalar::refuse_large(uint64_t value) {
  detail::raise<DTypeError>("Scalar: got ", value, ", expected an integer of at most ", INT64_MAX);
}

void Scalar::refuse(std::intmax_t least, std::uintmax_t most) const {
  detail::raise<DTypeError>(*this, " does not convert to an integer type from ", least, " to ", most);
}

void detail::check_fits(Scalar value, DType dtype, const char* op) {
  TENDRIL_CHECK_AS(DTypeError, value.fits(dtype), op, ": the value ", value, " does not convert to ", dtype);
}

std::ostream& operator<<(std::ostream& out, const Scalar& value) {
  if (value.is_floating()) return out << value.to<double>();
  if (value.category() == kBool) return out << (value.to<bool>() ? "true" : "false");
  return out << value.to<int64_t>();
}

}  // namespace tendril
