// Gradients through calls equal local autograd's.
#include "tests/dist/group.h"

using namespace dist_test;

namespace dist_results {

Tensor product(const Tensor& x, const Tensor& y) { return x * y; }

}  // namespace dist_results
using namespace dist_results;

BOOST_AUTO_TEST_SUITE(results)

BOOST_AUTO_TEST_CASE(one_call_gives_the_gradients_of_local_autograd) {
  const Group group(2);
  const Tensor x = leaf({1, 2}), y = leaf({3, 5});
  for (const Mode mode : {Mode::smart, Mode::fast}) {
    const Context context(group[0]);
    backward(context, {rpc::rpc_sync<&product>(group[0], 1, x, y).sum()}, {.mode = mode});
    const Gradients gradients = get_gradients(context);
    BOOST_TEST(values(gradients.at(x)) == Values({3, 5}));
    BOOST_TEST(values(gradients.at(y)) == Values({1, 2}));
    BOOST_TEST(!x.grad().defined());
  }
}

BOOST_AUTO_TEST_SUITE_END()
