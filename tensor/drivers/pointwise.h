#pragma once

#include <optional>

#include "tendril/tensor/drivers/record.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/raw.h"

TENDRIL_API_BEGIN

/// The driver of pointwise operations, recording what raw.h computes: shape rule, promotion, allocation, kernel and
/// errors are in pointwise.cpp. A number beside a tensor is no operand of the node.
namespace tendril::drivers {

/// keep(out, x)
template <class Gradient>
Tensor unary(Unary op, const Tensor& x) {
  Tensor out = raw::unary(op, x);
  if (auto* node = Gradient::record(out, x)) node->keep(out, x);
  return out;
}

/// keep(out, x, p)
template <class Gradient>
Tensor unary(Unary op, const Tensor& x, double p) {
  Tensor out = raw::unary(op, x, p);
  if (auto* node = Gradient::record(out, x)) node->keep(out, x, p);
  return out;
}

/// keep(x, y), as the two forms with a number.
template <class Gradient>
Tensor binary(Binary op, const Tensor& x, const Tensor& y) {
  Tensor out = raw::binary(op, x, y);
  if (auto* node = Gradient::record(out, x, y)) node->keep(x, y);
  return out;
}

template <class Gradient>
Tensor binary(Binary op, const Tensor& x, Scalar y) {
  Tensor out = raw::binary(op, x, y);
  if (auto* node = Gradient::record(out, x)) node->keep(x, y);
  return out;
}

template <class Gradient>
Tensor binary(Binary op, Scalar x, const Tensor& y) {
  Tensor out = raw::binary(op, x, y);
  if (auto* node = Gradient::record(out, Tensor(), y)) node->keep(x, y);
  return out;
}

/// The operands of the node are x and y: keep(mask)
template <class Gradient>
Tensor where(const Tensor& mask, const Tensor& x, const Tensor& y) {
  Tensor out = raw::where(mask, x, y);
  if (auto* node = Gradient::record(out, x, y)) node->keep(mask);
  return out;
}

/// keep(x, low, high)
template <class Gradient>
Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  Tensor out = raw::clamp(x, low, high);
  if (auto* node = Gradient::record(out, x)) node->keep(x, low, high);
  return out;
}

}  // namespace tendril::drivers

TENDRIL_API_END
