// Pointwise kernels with several operands, fused gradients and products in float32 against themselves in float64
// (against_float64.h).
#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(float32_pointwise)

using namespace tendril;
using namespace tendril::testing;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);

Dims some_sizes(int round) {
  if (round % 4 == 0) return {roll(60'000, 200'000)};  // several threads
  if (round % 4 == 1) return {roll(1, 300), roll(1, 300)};
  return {roll(1, 9), roll(1, 20), roll(1, 20)};
}

/// The numbers of `x`, each 1/16 further from 0: a divisor of exactly 0, which uniform_ draws once in 2^24 times, would
/// make the difference to float64 NaN.
Tensor away_from_zero(const Tensor& x) {
  return raw::where(raw::compare(Compare::lt, x, 0), raw::binary(Binary::sub, x, 0.0625),
                    raw::binary(Binary::add, x, 0.0625));
}

enum Saved : uint8_t { kNone, kInput, kOutput };
struct UnaryRow {
  Unary op;
  Saved saves;
  double low, high;
};
const UnaryRow kUnaryRows[] = {
#define TENDRIL_UNARY(name, doc, dtypes, expression, saves, gradient, fused, low, high, ...) \
  {Unary::name, saves, low, high},
#include "tendril/tensor/pointwise.def"
};
struct BinaryRow {
  Binary op;
  DTypeRule rule;
  bool fused[2];
  double x_low, x_high, y_low, y_high;
};
constexpr bool is_fused(std::string_view expression) { return expression != "unfused"; }
constexpr DTypeRule kSame = DTypeRule::kSame, kAny = DTypeRule::kAny, kFloat = DTypeRule::kFloat,
                    kDivide = DTypeRule::kDivide, kShift = DTypeRule::kShift, kInteger = DTypeRule::kInteger;
const BinaryRow kBinaryRows[] = {
#define TENDRIL_BINARY(name, doc, dtypes, expression, saves, gx, gy, fused_x, fused_y, x_low, x_high, y_low, y_high) \
  {Binary::name, dtypes, {is_fused(#fused_x), is_fused(#fused_y)}, x_low, x_high, y_low, y_high},
#include "tendril/tensor/pointwise.def"
};

}  // namespace

BOOST_AUTO_TEST_CASE(fused_gradients_of_one_operand_agree_with_themselves_in_float64) {
  int checked = 0;
  for (const UnaryRow& row : kUnaryRows) {
    if (row.saves == kNone) continue;
    ++checked;
    for (int round = 0; round < 4; ++round) {
      const Dims sizes = some_sizes(round);
      const double p = parameter_of(row.op);
      Tensor x = noise(sizes, row.low, row.high);
      if (row.op == Unary::reciprocal) x = away_from_zero(x);
      check_anyhow(name_of(row.op), {noise(sizes), x}, {{sizes}, {sizes}}, 1e-5,
                   [&](const Tensors& out, const Tensors& given) {
                     const Tensor& kept = row.saves == kInput ? given[1] : out[0];
                     table.unary(row.op, view_of(out[0]), view_of(given[1]), p);
                     table.unary_gradient(row.op, view_of(out[1]), view_of(given[0]), view_of(kept), p);
                   });
    }
  }
  BOOST_TEST(checked > 20);
}

BOOST_AUTO_TEST_CASE(fused_gradients_of_two_operands_do) {
  int checked = 0;
  for (const BinaryRow& row : kBinaryRows) {
    if (!computes_in(row.rule, kFloat32)) continue;
    for (const int operand : {0, 1}) {
      if (!row.fused[operand]) continue;
      ++checked;
      for (int round = 0; round < 4; ++round) {
        const Dims sizes = some_sizes(round);
        const Tensor x = noise(sizes, row.x_low, row.x_high), y = away_from_zero(noise(sizes, row.y_low, row.y_high));
        check_anyhow(name_of(row.op), {noise(sizes), x, y}, {{sizes}}, 1e-5,
                     [&](const Tensors& out, const Tensors& given) {
                       table.binary_gradient(row.op, operand, view_of(out[0]), view_of(given[0]), view_of(given[1]),
                                             view_of(given[2]));
                     });
      }
    }
  }
  BOOST_TEST(checked > 4);
}

BOOST_AUTO_TEST_CASE(choices_bounds_and_scaled_sums_do) {
  for (int round = 0; round < 16; ++round) {
    const Dims sizes = some_sizes(round);
    const Tensor x = noise(sizes), y = noise(sizes), mask = raw::cast(places(sizes, 2), kBool);
    const Scalar low = -0.25, high = 0.5;  // the same in either dtype
    check_anyhow("where, clamp, add_scaled", {mask, x, y}, {{sizes}, {sizes}, {sizes}}, 1e-6,
                 [&](const Tensors& out, const Tensors& given) {
                   table.where(view_of(out[0]), view_of(given[0]), view_of(given[1]), view_of(given[2]));
                   table.clamp(view_of(out[1]), view_of(given[1]), round % 3 ? &low : nullptr,
                               round % 3 == 1 ? nullptr : &high);
                   table.add_scaled(view_of(out[2]), view_of(given[1]), view_of(given[2]), 0.75);
                 });
  }
}

BOOST_AUTO_TEST_CASE(products_of_any_sizes_and_layouts_do) {
  for (int round = 0; round < 40; ++round) {
    const int64_t longest = round % 4 ? 40 : 300;
    const int64_t m = roll(1, longest), k = roll(1, longest), n = roll(1, longest), batch = roll(1, 5);
    const auto with_batch = [&](Dims sizes) { return round % 3 ? sizes : Dims{batch, sizes[0], sizes[1]}; };
    check_anyhow("matmul", {noise(with_batch({m, k})), noise(with_batch({k, n}))}, {{with_batch({m, n})}}, 3e-6,
                 [&](const Tensors& out, const Tensors& given) {
                   table.matmul(view_of(out[0]), view_of(given[0]), view_of(given[1]));
                 });
  }
}

BOOST_AUTO_TEST_SUITE_END()
