// Running results and products where they are special; values are PyTorch 2.15's unless they say otherwise.
#include <cmath>
#include <limits>
#include <set>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/autograd/ops/scan.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(scan)

using namespace tendril;
using boost::test_tools::per_element;

namespace {

using Values = std::vector<double>;
using Places = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Values values(const Tensor& x) { return x.to_vector<double>(); }
Tensor doubles(std::initializer_list<double> of, bool learns = true) {
  return tensor(of, {.dtype = kFloat64, .requires_grad = learns});
}
/// Equal, where NaN equals NaN.
bool same(const Values& a, const Values& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// How many nodes the graphs of these tensors have.
std::size_t nodes_behind(const std::vector<Tensor>& tensors) {
  std::vector<autograd::Node*> next;
  for (const Tensor& x : tensors) next.push_back(autograd::grad_fn(x));
  std::set<autograd::Node*> seen;
  while (!next.empty()) {
    autograd::Node* node = next.back();
    next.pop_back();
    if (!node || !seen.insert(node).second) continue;
    for (const autograd::Edge& edge : node->edges()) next.push_back(edge.node.get());
  }
  return seen.size();
}

}  // namespace

BOOST_AUTO_TEST_CASE(graphs_of_products_do_not_grow_with_their_length) {
  const std::function<Tensor(const Tensor&)> functions[] = {
      [](const Tensor& x) { return x.prod(); }, [](const Tensor& x) { return x.prod(0); },
      [](const Tensor& x) { return x.cumprod(0).sum(); }, [](const Tensor& x) { return x.logcumsumexp(0).sum(); },
      [](const Tensor& x) { return std::get<0>(x.cummax(0)).sum(); }};
  for (const auto& f : functions) {
    std::vector<std::size_t> first, second;
    for (const int64_t length : {8, 20000}) {
      // Partial products of the second half leave the range of float32.
      const Tensor x = tensor({1e30, 1e-30, 1e-30, 1e30}, {.dtype = kFloat32}).repeat({length / 4}).requires_grad_();
      const Tensor y = f(x);
      first.push_back(nodes_behind({y}));
      second.push_back(nodes_behind(autograd::grad({y}, {x}, {}, {.create_graph = true})));
    }
    BOOST_TEST(first[0] == first[1]);
    BOOST_TEST(second[0] == second[1]);
    BOOST_TEST(first[1] < 6);
    BOOST_TEST(second[1] < 40);
  }
}

BOOST_AUTO_TEST_CASE(derivatives_of_products_with_zeros_agree_with_differences) {
  const Tensor x =
      tensor({{2., -1.5, 0.5, 1.25}, {0., 1.5, -2., 0.7}, {1.1, 0., 3., -0.4}, {1.5, 0., -2., 0.}, {0., 0., 0., 1.5}},
             {.dtype = kFloat64, .requires_grad = true});
  const autograd::DifferentiableFunction functions[] = {
      [](const auto& in) { return std::vector{in[0].prod(1)}; },
      [](const auto& in) { return std::vector{in[0].prod(0, true)}; },
      [](const auto& in) { return std::vector{in[0].narrow(0, 0, 2).prod()}; },
      [](const auto& in) { return std::vector{in[0].cumprod(1)}; },
      [](const auto& in) { return std::vector{in[0].cumprod(0)}; }};
  for (const auto& f : functions) {
    const auto first = autograd::gradcheck(f, {x}), second = autograd::gradgradcheck(f, {x});
    BOOST_TEST(first.ok, first.message);
    BOOST_TEST(second.ok, second.message);
  }
}

BOOST_AUTO_TEST_CASE(third_derivatives_of_products_are_those_of_the_polynomial) {
  const Tensor x = doubles({0, 0, 0, 2});
  Tensor y = x.prod();
  for (const int64_t i : {0, 1, 2}) y = autograd::grad({y}, {x}, {}, {.create_graph = true})[0][i];
  BOOST_TEST(y.item<double>() == 2);
  Tensor z = x.cumprod(0)[3];
  for (const int64_t i : {2, 0, 1}) z = autograd::grad({z}, {x}, {}, {.create_graph = true})[0][i];
  BOOST_TEST(z.item<double>() == 2);
}

BOOST_AUTO_TEST_CASE(a_product_of_a_million_elements_is_differentiated) {
  const Tensor x = full({1000000}, 1, {.dtype = kFloat32});
  x.narrow(0, 500000, 1).fill_(3);
  x.requires_grad_();
  x.prod().backward();
  BOOST_TEST(x.grad()[7].item<double>() == 3);
  BOOST_TEST(x.grad()[500000].item<double>() == 1);
  x.zero_grad();
  x.cumprod(0).backward(ones({1000000}));
  BOOST_TEST(x.grad()[999999].item<double>() == 3);
  BOOST_TEST(x.grad()[500000].item<double>() == 500000);
}

BOOST_AUTO_TEST_CASE(gradients_of_products_do_not_leave_the_range_with_partial_products) {
  // By hand.
  const Tensor x = tensor({1e-30, 1e-30, 1e-30, 1e30, 1e30, 1e30}, {.dtype = kFloat32, .requires_grad = true});
  const Values expected = {1e30, 1e30, 1e30, 1e-30, 1e-30, 1e-30};
  const Values product = values(autograd::grad({x.prod()}, {x})[0]);
  const Values last = values(autograd::grad({x.cumprod(0)[5]}, {x})[0]);
  for (std::size_t i = 0; i < 6; ++i) {
    BOOST_TEST(std::abs(product[i] / expected[i] - 1) < 1e-6);
    BOOST_TEST(std::abs(last[i] / expected[i] - 1) < 1e-6);
  }
  const Tensor large = doubles({1e200, -1e200, 0, 1e200, 1e200});
  BOOST_TEST(values(autograd::grad({large.prod()}, {large})[0])[3] == 0);
  const Tensor behind = doubles({0, 1e200, 1e200, 1e200});
  BOOST_TEST(same(values(autograd::grad({behind.cumprod(0).sum()}, {behind})[0]), {kInf, 0, 0, 0}));
  BOOST_TEST(values(autograd::grad({behind.prod()}, {behind})[0])[1] == 0);
}

BOOST_AUTO_TEST_CASE(a_product_is_the_same_whether_it_is_recorded_or_not) {
  if (!default_device().is_cpu()) return;  // a device multiplies as a tree, in which these leave the range
  for (const bool learns : {false, true}) {
    Values factors;
    for (int i = 0; i < 40; ++i) factors.push_back(i % 2 ? 1e-200 : 1e200);
    const Tensor x = tensor(factors, {.dtype = kFloat64, .requires_grad = learns});
    BOOST_TEST(std::abs(x.prod().item<double>() - 1) < 1e-12);
    const Tensor rows = x.reshape({20, 2}).t();
    BOOST_TEST(same(values(rows.prod(1)), {kInf, 0}));
  }
}

BOOST_AUTO_TEST_CASE(running_products_keep_float32_in_double) {
  const Tensor x = tensor({1e30, 1e30, 1e-30, 1e-30}, {.dtype = kFloat32});
  const Values products = values(x.cumprod(0));
  BOOST_TEST(products[1] == kInf);
  BOOST_TEST(std::abs(products[3] - 1) < 1e-6);
  BOOST_TEST(same(values(tensor({300., 300., .001}, {.dtype = kFloat16}).cumprod(0)), {300, kInf, 90.0625}));
  BOOST_TEST(same(values(tensor({2., 0., kInf, 3.}).cumprod(0)), {2, 0, kNan, kNan}));
}

BOOST_AUTO_TEST_CASE(running_extrema_take_the_last_of_equals_and_keep_nan) {
  const Tensor x = doubles({2, 1, 2, 3, kNan, 1, kNan, 5});
  const auto [largest, at] = x.cummax(0);
  BOOST_TEST(same(values(largest), {2, 2, 2, 3, kNan, kNan, kNan, kNan}));
  BOOST_TEST(at.to_vector<int64_t>() == (Places{0, 0, 2, 3, 4, 4, 6, 6}), per_element());
  const auto [smallest, least_at] = cummin(doubles({2, 1, 2, 1, kNan, 1, kNan, 0}), 0);
  BOOST_TEST(same(values(smallest), {2, 1, 1, 1, kNan, kNan, kNan, kNan}));
  BOOST_TEST(least_at.to_vector<int64_t>() == (Places{0, 1, 1, 3, 4, 4, 6, 6}), per_element());
  largest.sum().backward();
  BOOST_TEST(values(x.grad()) == (Values{2, 0, 1, 1, 2, 0, 2, 0}), per_element());
  BOOST_TEST(!at.requires_grad());

  for (const DType dtype : {kBool, kUInt8, kInt32, kInt64, kFloat16, kBFloat16, kFloat32}) {
    const Tensor y = tensor({{1, 0, 1}, {0, 0, 1}}).to(dtype);
    const auto [most, places] = cummax(y, 1);
    BOOST_TEST((most.dtype() == dtype));
    BOOST_TEST((places.dtype() == kInt64));
    BOOST_TEST(values(most.to(kFloat64)) == (Values{1, 1, 1, 0, 0, 1}), per_element());
    BOOST_TEST(places.to_vector<int64_t>() == (Places{0, 0, 2, 0, 1, 2}), per_element());
    BOOST_TEST(values(std::get<0>(cummin(y, 0)).to(kFloat64)) == (Values{1, 0, 1, 0, 0, 1}), per_element());
  }
}

BOOST_AUTO_TEST_CASE(running_log_sums_are_exact_at_their_limits) {
  const Tensor x = doubles({-kInf, -kInf, 0, -46, kInf, 1, kInf, kNan, 2}, false);
  const Values sums = values(x.logcumsumexp(0));
  BOOST_TEST(same(sums, {-kInf, -kInf, 0, std::exp(-46.), kInf, kInf, kInf, kNan, kNan}));
  BOOST_TEST(std::abs(values(doubles({1000, 1000, -2000}).logcumsumexp(0))[2] - 1000 - std::log(2.)) < 1e-12);

  // Consistent with logsumexp: PyTorch's are NaN.
  const auto gradient = [](std::initializer_list<double> of) {
    const Tensor at = doubles(of);
    return values(autograd::grad({at.logcumsumexp(0)}, {at}, {arange(1, 1 + at.numel(), 1, {.dtype = kFloat64})})[0]);
  };
  BOOST_TEST(gradient({-kInf, -kInf}) == (Values{0, 0}), per_element());
  BOOST_TEST(gradient({-kInf, 0}) == (Values{0, 2}), per_element());
  BOOST_TEST(gradient({-kInf, -1e308, -kInf}) == (Values{0, 5, 0}), per_element());
  BOOST_TEST(gradient({0, kInf, 1, kInf}) == (Values{1, 7, 0, 2}), per_element());
  BOOST_TEST(gradient({kInf}) == (Values{1}), per_element());
  BOOST_TEST(gradient({-1e308, 1e308, 0}) == (Values{1, 5, 0}), per_element());

  const Tensor mixed = doubles({-kInf, -kInf, 0.5, 1});
  const Tensor first = autograd::grad({mixed.logcumsumexp(0).sum()}, {mixed}, {}, {.create_graph = true})[0];
  const Values second = values(autograd::grad({(first * first).sum()}, {mixed})[0]);
  BOOST_TEST(second[0] == 0);
  BOOST_TEST(second[1] == 0);
  const Tensor plain = doubles({0.5, 1});
  const Tensor of_plain = autograd::grad({plain.logcumsumexp(0).sum()}, {plain}, {}, {.create_graph = true})[0];
  BOOST_TEST((Values{second[2], second[3]} == values(autograd::grad({(of_plain * of_plain).sum()}, {plain})[0])));
}

BOOST_AUTO_TEST_CASE(integers_multiply_in_int64_and_wrap_around) {
  const Tensor x = tensor({3, 100, 5}).to(kUInt8);
  BOOST_TEST((x.cumprod(0).dtype() == kInt64));
  BOOST_TEST(x.cumprod(0).to_vector<int64_t>() == (Places{3, 300, 1500}), per_element());
  BOOST_TEST((tensor({int64_t{1} << 40, int64_t{1} << 40}).cumprod(0).to_vector<int64_t>()[1] == 0));
  BOOST_TEST(ones({2}, {.dtype = kBool}).cumprod(0).to_vector<int64_t>() == (Places{1, 1}), per_element());
}

BOOST_AUTO_TEST_CASE(running_results_of_strided_and_empty_tensors_are_right) {
  const Tensor x = rand({3, 8, 5}, {.dtype = kFloat64});
  const Tensor part = x.slice(1, 0, 8, 2).transpose(0, 2), same_part = part.contiguous();
  for (const int64_t dim : {0, 1, -1}) {
    BOOST_TEST(equal(part.cumprod(dim), same_part.cumprod(dim)));
    BOOST_TEST(equal(part.logcumsumexp(dim), same_part.logcumsumexp(dim)));
    BOOST_TEST(equal(std::get<0>(part.cummax(dim)), std::get<0>(same_part.cummax(dim))));
    BOOST_TEST(equal(std::get<1>(part.cummin(dim)), std::get<1>(same_part.cummin(dim))));
  }
  for (const Dims& sizes : {Dims{0}, Dims{0, 3}, Dims{3, 0}}) {
    const Tensor none = zeros(sizes, {.requires_grad = true});
    for (const int64_t dim : {int64_t{0}, int64_t{-1}}) {
      for (const Tensor& y : {none.cumprod(dim), none.logcumsumexp(dim), std::get<0>(none.cummax(dim))}) {
        BOOST_TEST(y.sizes() == sizes);
        BOOST_TEST(autograd::grad({y.sum()}, {none})[0].sizes() == sizes);
      }
      BOOST_TEST(std::get<1>(none.cummin(dim)).sizes() == sizes);
    }
  }
  BOOST_TEST(tensor(3.).cumprod(-1).item<double>() == 3);
  BOOST_TEST(std::get<1>(tensor(3.).cummax(0)).item<int64_t>() == 0);
}

BOOST_AUTO_TEST_CASE(bad_arguments_are_refused) {
  const Tensor x = ones({2, 3});
  CHECK_RAISES(IndexError, "cumprod", x.cumprod(2));
  CHECK_RAISES(IndexError, "cummax", x.cummax(-3));
  CHECK_RAISES(IndexError, "cummin", x.cummin(2));
  CHECK_RAISES(IndexError, "logcumsumexp", x.logcumsumexp(2));
  CHECK_RAISES(DTypeError, "logcumsumexp", tensor({1, 2}).logcumsumexp(0));
}

BOOST_AUTO_TEST_SUITE_END()
