#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "tendril/tensor/detail/columns.h"
#include "tendril/tensor/tensor.h"

/// What the expansion of tensor/pointwise.def needs.
namespace tendril::autograd::table {

enum Saves { kNone, kInput, kOutput };

/// `x` in `dtype`, recorded. The formulas of the table are computed in one dtype: that of the result, in which the
/// operation was (an int64 exponent beside a float64 base counts as a float64), and in float32 for the half types, so
/// that the gradient alone is rounded (the engine does that).
class SeenAs {
 public:
  SeenAs(const Tensor& x, DType dtype) : x_(x.dtype() == dtype ? x : copy_ = x.to(dtype)) {}
  SeenAs(const SeenAs&) = delete;
  operator const Tensor&() const noexcept { return x_; }

 private:
  Tensor copy_;
  const Tensor& x_;
};

/// "mul" to "MulBackward", null-terminated.
template <std::size_t N>
consteval auto node_name(const char (&op)[N]) {
  constexpr std::string_view suffix = "Backward";
  std::array<char, N + suffix.size()> name{};
  for (std::size_t i = 0; i + 1 < N; ++i) name[i] = op[i];
  if (name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 'a' + 'A');
  for (std::size_t i = 0; i < suffix.size(); ++i) name[N - 1 + i] = suffix[i];
  return name;
}

/// Of a row with a number, the number.
template <bool has>
struct Parameter {
  double p = 0;
};
template <>
struct Parameter<false> {
  static constexpr double p = 0;
};

}  // namespace tendril::autograd::table
