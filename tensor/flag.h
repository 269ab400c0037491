#pragma once

#include <concepts>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// A bool argument that no number converts to: `x.sum(0, 1)`, which would mean `keepdim = true`, does not compile.
class Flag {
 public:
  template <std::same_as<bool> T>
  constexpr Flag(T value) noexcept : value_(value) {}  // implicit on purpose: a bool is a Flag
  /// The wrapped bool.
  constexpr operator bool() const noexcept { return value_; }

 private:
  bool value_;
};

}  // namespace tendril

TENDRIL_API_END
