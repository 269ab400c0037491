// Copies between views that share elements: the target gets what the source was before.
#include <bit>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/raises.h"

BOOST_AUTO_TEST_SUITE(overlap)

using namespace tendril;

namespace {
Tensor grid(int64_t n) { return arange(n * n).to(kFloat32).view({n, n}); }
template <class Source, class Target>
void check(Tensor x, Source source, Target target) {
  const Tensor expected = x.clone();
  target(expected).copy_(source(x).clone());
  target(x).copy_(source(x));
  BOOST_TEST(x.to_vector<float>() == expected.to_vector<float>(), boost::test_tools::per_element());
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_matrix_takes_its_own_transposed) {
  const auto whole = [](const Tensor& x) { return x; };
  for (int64_t n : {2, 3, 300})
    check(
        grid(n), [](const Tensor& x) { return x.t(); }, whole);
}

BOOST_AUTO_TEST_CASE(rows_and_elements_move_up_and_down) {
  const auto low = [](const Tensor& x) { return x.narrow(0, 0, x.size(0) - 1); };
  const auto high = [](const Tensor& x) { return x.narrow(0, 1, x.size(0) - 1); };
  for (int64_t n : {4, 400}) {
    check(grid(n), low, high);
    check(grid(n), high, low);
    check(grid(n).t(), low, high);
    check(arange(n * n).to(kFloat32), low, high);
    check(arange(n * n).to(kFloat32), high, low);
  }
  const auto every_other = [](const Tensor& x) { return x.slice(0, 0, x.size(0), 2); };
  check(arange(1000).to(kFloat32), every_other, [](const Tensor& x) { return x.narrow(0, 0, 500); });
  check(arange(1000).to(kFloat32), every_other, [](const Tensor& x) { return x.narrow(0, 500, 500); });
}

BOOST_AUTO_TEST_CASE(a_row_of_the_target_is_broadcast_over_it) {
  check(
      grid(5), [](const Tensor& x) { return x[2]; }, [](const Tensor& x) { return x; });
  check(
      grid(5), [](const Tensor& x) { return x.select(1, 3).unsqueeze(1); }, [](const Tensor& x) { return x; });
}

BOOST_AUTO_TEST_CASE(two_tensors_on_one_blob_overlap_too) {
  if (!default_device().is_cpu()) return;
  std::vector<float> memory = {1, 2, 3, 4};
  const Tensor x = from_blob(memory.data(), {3});
  Tensor y = from_blob(memory.data() + 1, {3});
  y.slice(0, 0, 3, 2).copy_(x.slice(0, 0, 3, 2));
  BOOST_TEST(memory == (std::vector<float>{1, 1, 3, 3}), boost::test_tools::per_element());
  const Tensor bytes = from_blob(memory.data(), {3}, {.dtype = kInt32});
  y.copy_(bytes);
  BOOST_TEST(memory[1] == static_cast<float>(std::bit_cast<int32_t>(1.F)));
  BOOST_TEST(memory[2] == static_cast<float>(std::bit_cast<int32_t>(1.F)));
}

BOOST_AUTO_TEST_CASE(a_copy_of_itself_changes_nothing) {
  const Tensor x = grid(3);
  x.t().copy_(x.t());
  BOOST_TEST(x.to_vector<float>() == grid(3).to_vector<float>(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
