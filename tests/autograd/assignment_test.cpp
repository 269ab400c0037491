// `x[0] = y` writes elements; `row = y` makes a variable refer to another tensor.
#include <algorithm>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(assignment)

using namespace tendril;

static_assert(std::is_nothrow_move_assignable_v<Tensor> && std::is_copy_assignable_v<Tensor>);
static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_copy_constructible_v<Tensor>);
static_assert(std::is_nothrow_swappable_v<Tensor> && std::movable<Tensor> && std::copyable<Tensor>);

namespace {
using Values = std::vector<float>;
Values values(const Tensor& x) { return x.to_vector<float>(); }
Tensor made(float value) { return full({2}, value); }
}  // namespace

BOOST_AUTO_TEST_CASE(what_a_subscript_gives_is_written) {
  const Tensor x = zeros({3, 2});
  x[0] = made(5);
  x[1] = 7;
  x[2] = x[0];
  x[2][1] = tensor(9.F);
  BOOST_TEST(values(x) == (Values{5, 5, 7, 7, 5, 9}));
  x.select(1, 0) = x.select(1, 1);
  BOOST_TEST(values(x) == (Values{5, 5, 7, 7, 9, 9}));
  CHECK_RAISES(ShapeError, "copy_", x[0] = ones({3}));
}

BOOST_AUTO_TEST_CASE(a_variable_is_made_to_refer_to_the_other_tensor) {
  const Tensor x = zeros({2, 2});
  Tensor row = x[0];
  row = made(5);
  BOOST_TEST(values(x) == (Values{0, 0, 0, 0}));
  BOOST_TEST(values(row) == (Values{5, 5}));
  row = {};
  BOOST_TEST(!row.defined());
}

BOOST_AUTO_TEST_CASE(writing_a_row_is_recorded) {
  const Tensor w = ones({2}, {.requires_grad = true});
  const Tensor x = zeros({2, 2});
  x[1] = w * 3;
  x.sum().backward();
  BOOST_TEST(values(w.grad()) == (Values{3, 3}));
}

BOOST_AUTO_TEST_CASE(containers_and_algorithms_move_tensors_and_leave_elements_alone) {
  std::vector<Tensor> all = {made(3), made(1), made(2), made(0)};
  const std::vector<Tensor> before = all;
  const auto first = [](const Tensor& x) { return x.to_vector<float>()[0]; };
  std::sort(all.begin(), all.end(), [&](const Tensor& a, const Tensor& b) { return first(a) < first(b); });
  for (int i = 0; i < 4; ++i) BOOST_TEST(first(all[static_cast<std::size_t>(i)]) == static_cast<float>(i));
  all.erase(all.begin());
  all.insert(all.begin() + 1, made(8));
  std::rotate(all.begin(), all.begin() + 1, all.end());
  std::swap(all[0], all[1]);
  std::swap_ranges(all.begin(), all.begin() + 1, all.begin() + 2);
  all[0] = std::move(all[1]);
  std::vector<Tensor> moved(all.size());
  std::move(all.begin(), all.end(), moved.begin());
  std::copy(moved.begin(), moved.end(), all.begin());
  Tensor a, b;
  std::tie(a, b) = std::tuple(made(4), made(6));
  std::optional<Tensor> maybe = made(1);
  maybe = a;
  std::pair<Tensor, int> pair(made(1), 0);
  pair = std::pair(b, 1);
  std::exchange(a, b);
  BOOST_TEST(values(*maybe) == (Values{4, 4}));
  BOOST_TEST(values(pair.first) == (Values{6, 6}));
  const float kept[] = {3, 1, 2, 0};
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(values(before[i]) == (Values{kept[i], kept[i]}));
}

BOOST_AUTO_TEST_SUITE_END()
