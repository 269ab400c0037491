#pragma once

namespace tendril::dist::detail {

/// For std::visit: one function for each alternative. `std::visit(Overloaded{[](int) {}, [](const auto&) {}}, x)`
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // for Clang before 17

}  // namespace tendril::dist::detail
