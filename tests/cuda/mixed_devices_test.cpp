#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/tensor.h"
#include "tests/cuda/compare.h"
#include "tests/errors.h"

namespace {

using namespace tendril;
using namespace tendril::testing;

Tensor matrix() { return raw::from_data(std::vector<float>{1, -2, 3, 4, 0, 6}, {2, 3}); }
Tensor matrix_there() { return twin(matrix()); }
Tensor number(double value, DType dtype = kFloat32) { return raw::scalar(value, dtype); }

/// `got` is on the device and has the values and dtype of `want`.
void check(const Tensor& got, const Tensor& want) {
  BOOST_TEST((got.device() == kGPU));
  check_close(got, want, 1e-6, 1e-6);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mixed_devices)

BOOST_AUTO_TEST_CASE(numbers_are_operands_on_any_device) {
  const Tensor x = matrix(), y = matrix_there();
  check(y + 2.5, x + 2.5);
  check(2.5 - y, 2.5 - x);
  check(y.pow(2), x.pow(2));
  check(y.maximum(1), x.maximum(1));
  check(y.gt(2), x.gt(2));
  check(y.clamp(-1, 3), x.clamp(-1, 3));
  check(y.masked_fill(y.gt(2), -7), x.masked_fill(x.gt(2), -7));
  check(where(y.gt(2), y, 9), where(x.gt(2), x, 9));
  check(where(y.gt(2), 9, y), where(x.gt(2), 9, x));
  check(y.to(kFloat16) * 3, x.to(kFloat16) * 3);
  check(y.to(kInt64) * 3, x.to(kInt64) * 3);
  check(y.to(kBFloat16) + 0.1, x.to(kBFloat16) + 0.1);
}

BOOST_AUTO_TEST_CASE(numbers_change_tensors_on_any_device) {
  Tensor x = matrix(), y = matrix_there();
  x.add_(3).mul_(0.5).sub_(1).div_(3);
  y.add_(3).mul_(0.5).sub_(1).div_(3);
  check(y, x);
  x.masked_fill_(x.gt(0), 4);
  y.masked_fill_(y.gt(0), 4);
  check(y, x);
}

BOOST_AUTO_TEST_CASE(cpu_tensors_of_no_dimensions_join_operands_on_a_device) {
  const Tensor x = matrix(), y = matrix_there(), two = number(2), flag = raw::scalar(true, kBool);
  check(y * two, x * two);
  check(two - y, two - x);
  check(y.lt(two), x.lt(two));
  check(two.ge(y), two.ge(x));
  check(where(flag, y, two), where(flag, x, two));
  check(where(y.gt(2), two, number(5)), where(x.gt(2), two, number(5)));
  check(y.to(kInt64) + number(1, kInt32), x.to(kInt64) + number(1, kInt32));  // it is cast where it is
  check(y.to(kInt64) + two, x.to(kInt64) + two);
  Tensor a = matrix(), b = matrix_there();
  a.mul_(two);
  b.mul_(two);
  a.add_(two, 0.25);
  b.add_(two, 0.25);
  check(b, a);
  const Tensor one_there = twin(number(1));
  check(one_there + two, number(3));
  check(two + one_there, number(3));
}

BOOST_AUTO_TEST_CASE(a_number_is_read_before_the_function_returns) {
  const Tensor y = matrix_there(), x = matrix(), two = number(2);
  const Tensor product = y * two;
  two.mutable_data<float>()[0] = 77;
  check(product, x * 2);
}

BOOST_AUTO_TEST_CASE(a_parameter_on_the_cpu_that_joined_a_device_gets_its_gradient_on_the_cpu) {
  for (const double start : {2.0, -0.5}) {
    const auto gradients = [&](const Tensor& x) {
      Tensor scale = number(start), weights = x.detach();
      scale.requires_grad_();
      weights.requires_grad_();
      (weights * scale + scale / (weights.square() + 1) - scale.square().maximum(weights)).sum().backward();
      return std::pair(scale.grad(), weights.grad());
    };
    const auto [scale_here, weights_here] = gradients(matrix());
    const Tensor there = matrix_there();
    const auto [scale_there, weights_there] = gradients(there);
    BOOST_TEST((scale_there.device() == kCPU));
    check_close(scale_there, scale_here, 1e-5, 1e-5);
    check(weights_there, weights_here);
  }
}

BOOST_AUTO_TEST_CASE(tensors_on_different_devices_are_refused_by_name) {
  const Tensor x = matrix(), y = matrix_there();
  const auto refuses = [](auto f, const char* op, const char* a, const char* b) {
    BOOST_CHECK_EXCEPTION(f(), Error, says(op, a, b, "expected one device"));
  };
  refuses([&] { y + x; }, "add: ", "x is on cuda:0", "y on cpu");
  refuses([&] { x + y; }, "add: ", "x is on cpu", "y on cuda:0");
  refuses([&] { x.lt(y); }, "lt: ", "x is on cpu", "y on cuda:0");
  refuses([&] { x.pow(y); }, "pow: ", "x is on cpu", "y on cuda:0");
  refuses([&] { where(x.gt(0), y, y); }, "where: ", "the mask is on cpu", "x on cuda:0");
  refuses([&] { where(y.gt(0), y, x); }, "where: ", "the mask is on cuda:0", "y on cpu");
  refuses([&] { where(raw::scalar(true, kBool), y, x); }, "where: ", "x is on cuda:0", "y on cpu");
  refuses([&] { x.masked_fill(y.gt(0), 1); }, "where: ", "the mask is on cuda:0", "y on cpu");
  refuses([&] { matrix().add_(y); }, "add", "the tensor that is changed is on cpu", "y on cuda:0");
  refuses([&] { matrix().mul_(y); }, "mul", "the tensor that is changed is on cpu", "y on cuda:0");
  refuses([&] { matrix().add_(y, 0.5); }, "add", "the tensor that is changed is on cpu", "y on cuda:0");
  refuses([&] { number(1).add_(twin(number(1))); }, "add", "the tensor that is changed is on cpu", "y on cuda:0");
  if (device_count(DeviceType::cuda) > 1) {
    const Tensor z = twin(x, Device{DeviceType::cuda, 1});
    refuses([&] { y + z; }, "add: ", "x is on cuda:0", "y on cuda:1");
  }
}

BOOST_AUTO_TEST_CASE(results_go_where_their_operands_are_whichever_device_was_used_last) {
  if (device_count(DeviceType::cuda) < 2) return;
  const Device other{DeviceType::cuda, 1};
  const Tensor x = matrix(), here = matrix_there(), there = twin(x, other);
  const Tensor a = here * 2, b = there * 3, c = here + 1;
  check(a, x * 2);
  check(c, x + 1);
  BOOST_TEST((b.device() == other));
  check_close(b, x * 3, 1e-6, 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
