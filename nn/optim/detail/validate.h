#pragma once

#include <cmath>

#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/error.h"

/// Checks that optimizers and what goes with them share. `op` is whose name the error says.
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

/// What changes on the host alone would happen once, when it is recorded, and in no replay.
inline void refuse_recording(const char* op) {
  TENDRIL_CHECK(!tendril::detail::recorder(), op,
                ": cannot be recorded in a cuda::Graph, whose replays would not count: call it after each replay");
}

}  // namespace tendril::optim::detail
