#pragma once

#include <array>
#include <cstddef>
#include <string_view>

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

/// Whether a gradient column reads the operand called `letter`: then, and only then, it has to be saved.
consteval bool mentions(std::string_view text, char letter) {
  const auto in_identifier = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == letter && (i == 0 || !in_identifier(text[i - 1])) &&
        (i + 1 == text.size() || !in_identifier(text[i + 1]))) {
      return true;
    }
  }
  return false;
}

}  // namespace tendril::autograd::table
