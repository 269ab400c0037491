#include "tendril/tensor/kernels.h"

namespace tendril {

const char* name_of(Unary op) noexcept {
  static constexpr const char* names[] = {
#define TENDRIL_UNARY(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Predicate op) noexcept {
  static constexpr const char* names[] = {
#define TENDRIL_PREDICATE(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Binary op) noexcept {
  static constexpr const char* names[] = {
#define TENDRIL_BINARY(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Compare op) noexcept {
  static constexpr const char* names[] = {
#define TENDRIL_COMPARE(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Reduction op) noexcept {
  static constexpr const char* names[] = {"sum", "prod", "max", "min", "all", "any"};
  return names[static_cast<int>(op)];
}

}  // namespace tendril
