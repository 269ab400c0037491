#include "tendril/tensor/kernels.h"

#include <sstream>

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
  static constexpr const char* names[] = {
      "sum", "prod", "max", "min", "all", "any",
#define TENDRIL_REDUCTION(name, ...) #name,
#include "tendril/tensor/reductions.def"
  };
  return names[static_cast<int>(op)];
}

const char* name_of(Scan op) noexcept {
  static constexpr const char* names[] = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};
  return names[static_cast<int>(op)];
}

std::string index_error_text(IndexUse use, int64_t index, int dim, int64_t size) {
  static constexpr const char* names[] = {"gather",     "scatter_add", "scatter",   "index_select", "index_add",
                                          "index_fill", "index_copy",  "embedding", "nll_loss",     "cross_entropy"};
  std::ostringstream text;
  text << names[static_cast<int>(use)];
  switch (use) {
    case IndexUse::embedding:
      text << ": index " << index << " is out of range for a weight of " << size << " rows";
      break;
    case IndexUse::nll_loss:
    case IndexUse::cross_entropy:
      text << ": target " << index << " is out of range for " << size << " classes";
      break;
    default:
      text << ": index " << index << " is out of range for dimension " << dim << " of size " << size;
  }
  return text.str();
}

}  // namespace tendril
