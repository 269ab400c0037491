#pragma once

#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// What an expansion of tensor/pointwise.def asks of a column's text.
namespace tendril::detail {

/// Whether a column reads the operand called `letter`.
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

/// Whether a column "fused" has an expression.
consteval bool is_fused(std::string_view text) { return text != "unfused"; }

}  // namespace tendril::detail

TENDRIL_API_END
