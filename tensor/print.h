#pragma once

#include <cstdint>
#include <optional>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// How tensors are printed: torch.set_printoptions'.
namespace tendril {

struct PrintOptions {
  int precision = 4;                  ///< digits behind the point, 0 to 100
  int64_t threshold = 1000;           ///< tensors of more elements are summarised
  int64_t edgeitems = 3;              ///< ... to so many at either end of a dimension
  int64_t linewidth = 80;             ///< characters a line, where elements are not wider
  std::optional<bool> sci_mode = {};  ///< always or never as 1.0000e+01; unset: where the values ask for it
};

/// Of the whole process, from the next tensor that is printed on: `set_printoptions({.precision = 2})`. What is left
/// out is the default again. Error for a negative number or one that is too large; nothing changes then. Thread-safe.
void set_printoptions(const PrintOptions& options);
/// As set_printoptions left them.
PrintOptions printoptions();

}  // namespace tendril

TENDRIL_API_END
