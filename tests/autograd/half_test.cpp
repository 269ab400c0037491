// The half types are for storage: numbers beside them, counts and sums are float32, and the result alone is rounded.
#include <cmath>

#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"
#include "tests/autograd/samples/samples.h"

BOOST_AUTO_TEST_SUITE(half)

using namespace tendril;

namespace {
const DType kHalves[] = {kFloat16, kBFloat16};
double item(const Tensor& x) { return x.item<double>(); }
/// What is left of a number in `dtype`.
double rounded(double value, DType dtype) { return tensor(value, {.dtype = dtype}).item<double>(); }
Tensor leaf(std::initializer_list<double> values, DType dtype) {
  return tensor(values, {.dtype = dtype, .requires_grad = true});
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_mean_of_many_is_rounded_once) {
  for (DType dtype : kHalves) {
    BOOST_TEST(item(full({100000}, 0.1, {.dtype = dtype}).mean()) == rounded(0.1, dtype));
    BOOST_TEST(item(ones({100000}, {.dtype = dtype}).mean()) == 1);
    BOOST_TEST(item(full({7}, -1760, {.dtype = dtype}).mean()) == -1760);
    BOOST_TEST((ones({3}, {.dtype = dtype}).mean().dtype() == dtype));
    const Tensor x = full({2, 1000}, 300, {.dtype = dtype, .requires_grad = true});
    BOOST_TEST(item(x.var({0, 1})) == 0);
    BOOST_TEST(item(x.mean({1})[1]) == rounded(300, dtype));
    x.mean().backward();
    BOOST_TEST((x.grad().dtype() == dtype));
    BOOST_TEST(item(x.grad()[0][0]) == rounded(1. / 2000, dtype));
  }
}

BOOST_AUTO_TEST_CASE(a_number_beside_a_half_keeps_its_range_and_digits) {
  const Tensor x = full({600}, 1e-4, {.dtype = kFloat16}), row = x.view({2, 300}).t();
  const double kept = rounded(1e-4, kFloat16);
  for (const Tensor& y : {x * 1e6, 1e6 * x, x * tensor(1e6), x * tensor(1e6, {.dtype = kFloat64}), x / 1e-6, row * 1e6,
                          x.clone().mul_(1e6), x.clone().mul_(tensor(1e6)), x.clone().div_(1e-6)}) {
    BOOST_TEST((y.dtype() == kFloat16));
    for (double value : y.to_vector<double>()) BOOST_TEST_REQUIRE(std::abs(value - kept * 1e6) < 0.04);
  }
  BOOST_TEST(item(ones({1}, {.dtype = kFloat16}).add_(tensor(1e6), 1e-6)) == 2);
  BOOST_TEST(item(ones({1}, {.dtype = kFloat16}).add_(tensor({1e6}), 1e-6)) == 2);
  BOOST_TEST(item(ones({1}).add_(tensor({1e40}, {.dtype = kFloat64}), 1e-40)) == 2);  // (so does any other type)
  BOOST_TEST(item(ones({1}, {.dtype = kFloat16}).add_(tensor({1.}, {.dtype = kBFloat16}), 1e-3)) ==
             rounded(1.001, kFloat16));
  const Tensor large = tensor({60000.}, {.dtype = kFloat16});
  BOOST_TEST(item(large - 70000) == rounded(60000 - 70000, kFloat16));
  BOOST_TEST(item(70000 - large) == rounded(10000, kFloat16));
  BOOST_TEST(item(tensor(1e-4, {.dtype = kFloat16}) * 1e6) == rounded(kept * 1e6, kFloat16));
  // 1 + 2^-8 + 2^-16: the number's last digits decide which way the sum goes.
  BOOST_TEST(item(tensor({1.}, {.dtype = kBFloat16}) + (0x1p-8 + 0x1p-16)) == 1 + 0x1p-7);
}

BOOST_AUTO_TEST_CASE(so_does_it_in_the_gradient) {
  const Tensor x = leaf({1e-4}, kFloat16);
  (x / 1e-6).backward(tensor({1e-3}, {.dtype = kFloat16}));
  BOOST_TEST(item(x.grad()) == rounded(rounded(1e-3, kFloat16) * 1e6, kFloat16));
  const Tensor y = leaf({1e-4}, kFloat16);
  (y * 1e6).backward(tensor({1e-3}, {.dtype = kFloat16}));
  BOOST_TEST(item(y.grad()) == rounded(rounded(1e-3, kFloat16) * 1e6, kFloat16));
}

BOOST_AUTO_TEST_CASE(a_product_and_a_bias_are_rounded_once) {
  const DefaultDeviceGuard here(kCPU);  // (products of halves are halves on a GPU)
  for (DType dtype : kHalves) {
    const double digit = dtype == kFloat16 ? 0x1p-10 : 0x1p-7;  // next to 1
    const Tensor x = tensor({{1., digit / 2}}, {.dtype = dtype}), weight = tensor({{1., 1.}}, {.dtype = dtype});
    const Tensor bias = tensor({digit / 4}, {.dtype = dtype});
    BOOST_TEST(item(linear(x, weight, bias)) == 1 + digit);  // the product alone is 1, a tie
    BOOST_TEST((linear(x, weight, bias).dtype() == dtype));
    BOOST_TEST(item(linear(x.view({1, 1, 2}), weight, bias)) == 1 + digit);
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_is_rounded_once) {
  const double near_one = rounded(3.5, kFloat16);
  const Tensor x = leaf({near_one}, kFloat16);
  const double y = rounded(std::tanh(near_one), kFloat16);
  x.tanh().sum().backward();
  BOOST_TEST(item(x.grad()) == rounded(1 - y * y, kFloat16));  // in half, y * y would be off by more than 1 - y * y
}

BOOST_AUTO_TEST_CASE(losses_of_many_targets_are_finite) {
  for (DType dtype : kHalves) {
    const Tensor logits = zeros({20000, 4}, {.dtype = dtype, .requires_grad = true});
    const Tensor target = zeros({20000}, {.dtype = kInt64});
    const double expected = rounded(std::log(4.), dtype);
    BOOST_TEST(item(cross_entropy(logits, target)) == expected);
    BOOST_TEST(item(cross_entropy(logits, target, {.label_smoothing = 0.5})) == expected);
    BOOST_TEST(item(cross_entropy(logits, target, {.weight = full({4}, 0.1, {.dtype = dtype})})) == expected);
    const Tensor log_probs = full({100000, 1}, -3, {.dtype = dtype});
    BOOST_TEST(item(nll_loss(log_probs, zeros({100000}, {.dtype = kInt64}))) == 3);
    const Tensor x = full({100000}, 400, {.dtype = dtype}), y = full({100000}, 200, {.dtype = dtype});
    BOOST_TEST(item(mse_loss(x, y)) == rounded(40000, dtype));
    cross_entropy(logits, target).backward();
    BOOST_TEST((logits.grad().dtype() == dtype));
    BOOST_TEST(item(logits.grad()[0][1]) == rounded(0.25 / 20000, dtype));
  }
}

BOOST_AUTO_TEST_CASE(sums_by_index_do_not_stop_where_one_more_is_nothing) {
  for (DType dtype : kHalves) {
    const Tensor index = zeros({5000}, {.dtype = kInt64}), source = ones({5000}, {.dtype = dtype});
    BOOST_TEST(item(zeros({2}, {.dtype = dtype}).scatter_add(0, index, source)[0]) == rounded(5000, dtype));
    BOOST_TEST(item(zeros({2}, {.dtype = dtype}).index_add(0, index, source)[0]) == rounded(5000, dtype));
    const Tensor table = ones({2, 1}, {.dtype = dtype, .requires_grad = true});
    embedding(index, table).sum().backward();
    BOOST_TEST(item(table.grad()[0]) == rounded(5000, dtype));
    BOOST_TEST(item(table.grad()[1]) == 0);
  }
}

BOOST_AUTO_TEST_CASE(the_largest_of_many_equals_share_the_gradient) {
  const Tensor x = ones({4096}, {.dtype = kBFloat16, .requires_grad = true});
  (x.max() * 4096).backward();
  BOOST_TEST(item(x.grad()[7]) == 1);
  const Tensor y = ones({70000}, {.dtype = kFloat16, .requires_grad = true});
  (y.max() * 1024).backward();
  BOOST_TEST(item(y.grad()[7]) == rounded(1024. / 70000, kFloat16));
}

BOOST_AUTO_TEST_CASE(every_operation_takes_halves) {
  const DefaultDeviceGuard here(kCPU);
  for (const samples::Family& family : samples::families()) {
    for (const samples::OpSample& sample : family.samples()) {
      for (DType dtype : kHalves) BOOST_TEST(samples::check_half(sample, dtype, 8) == "");  // some are made of several
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
