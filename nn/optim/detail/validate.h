#pragma once

#include <cmath>

#include "tendril/tensor/error.h"

/// Checks of optimizer options. `op` is the optimizer's name.
namespace tendril::optim::detail {

inline void check_finite(const char* op, const char* option, double value) {
  TENDRIL_CHECK(std::isfinite(value), op, ": ", option, ": got ", value, ", expected a finite number");
}

inline void check_not_negative(const char* op, const char* option, double value) {
  TENDRIL_CHECK(std::isfinite(value) && value >= 0, op, ": ", option, ": got ", value,
                ", expected a finite number, 0 or more");
}

/// For decay rates of running averages: 1 would never take anything in.
inline void check_decay_rate(const char* op, const char* option, double value) {
  TENDRIL_CHECK(value >= 0 && value < 1, op, ": ", option, ": got ", value, ", expected a number in [0, 1)");
}

}  // namespace tendril::optim::detail
