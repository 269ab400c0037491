#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// An overload set for std::visit: `std::visit(Overloaded{[](int) {}, [](const auto&) {}}, x)`. Without a catch-all, an
/// alternative without a function does not compile.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // for Clang before 17

}  // namespace tendril::detail

TENDRIL_API_END
