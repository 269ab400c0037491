// A backward in which any one allocation fails throws and leaves nothing behind.
#include "tests/dist/group.h"
#include "tests/own_new.h"

BOOST_AUTO_TEST_SUITE(no_memory)

using namespace dist_test;
using tendril::testing::allocations_left;
using tendril::testing::kHasOwnNew;

BOOST_AUTO_TEST_CASE(failed_allocation_ends_the_backward) {
  const Group group(1);
  int failures = 0;
  for (bool enough = false; !enough;) {
    const Tensor x = leaf({1, 2});
    const Context context(group[0]);
    const Tensor loss = (x * x).sum();
    allocations_left = kHasOwnNew ? failures : -1;
    try {
      backward(context, {loss}, {.timeout = 10s});
      enough = true;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    allocations_left = -1;
    BOOST_TEST(group.counters(0).passes == 0, "without allocation " << failures);
    if (enough) BOOST_TEST(values(get_gradients(context).at(x)) == Values({2, 4}));
  }
  BOOST_TEST((failures > 0) == kHasOwnNew);
}

BOOST_AUTO_TEST_SUITE_END()
