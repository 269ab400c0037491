#include "tendril/tensor/kernels.h"

#include "tendril/tensor/cpu/cpu.h"

namespace tendril {

const char* name_of(Unary op) noexcept {
  constexpr const char* names[] = {
#define TENDRIL_UNARY(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Predicate op) noexcept {
  constexpr const char* names[] = {
#define TENDRIL_PREDICATE(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Binary op) noexcept {
  constexpr const char* names[] = {
#define TENDRIL_BINARY(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Compare op) noexcept {
  constexpr const char* names[] = {
#define TENDRIL_COMPARE(name, ...) #name,
#include "tendril/tensor/pointwise.def"
  };
  return names[static_cast<int>(op)];
}
const char* name_of(Reduction op) noexcept {
  constexpr const char* names[] = {"sum", "prod", "max", "min", "all", "any"};
  return names[static_cast<int>(op)];
}

const Kernels& kernels(Device device) {
  TENDRIL_CHECK(device.is_cpu(), "no kernels for ", device, ": this build has no such device");
  return cpu::table;
}

}  // namespace tendril
