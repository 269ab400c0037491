// Nodes that a context records on each worker, and their removal.
#include "tests/dist/group.h"

BOOST_AUTO_TEST_SUITE(context)

using namespace dist_test;

Tensor twice(const Tensor& x) { return x * 2; }
int64_t count(int64_t x) { return x + 1; }
BOOST_AUTO_TEST_CASE(calls_record_nodes_on_both_sides) {
  const Group group(2);
  const Tensor x = leaf({1, 2});
  {
    const Context context(group[0]);
    BOOST_TEST(dist::autograd::worker_of(context.id()) == 0);
    const Tensor y = rpc::rpc_sync<&twice>(group[0], 1, x);
    BOOST_TEST(y.requires_grad());
    for (const int rank : {0, 1}) {
      const Counters counters = group.counters(rank);
      BOOST_TEST(counters.contexts == 1);
      BOOST_TEST(counters.send_nodes == 1);
      BOOST_TEST(counters.recv_nodes == 1);
      BOOST_TEST(counters.passes == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(calls_without_gradients_still_register_the_context) {
  const Group group(2);
  const Context context(group[0]);
  BOOST_TEST(!rpc::rpc_sync<&twice>(group[0], 1, constant({1, 2})).requires_grad());
  BOOST_TEST(rpc::rpc_sync<&count>(group[0], 1, 41) == 42);
  for (const int rank : {0, 1}) {
    const Counters counters = group.counters(rank);
    BOOST_TEST(counters.contexts == 1);
    BOOST_TEST(counters.send_nodes + counters.recv_nodes == 0);
  }
}

BOOST_AUTO_TEST_CASE(nested_context_is_rejected) {
  const Group group(1);
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(const Context second(group[0]), AutogradError,
                        says("already recorded in context 0.", "contexts do not nest"));
}

BOOST_AUTO_TEST_SUITE_END()
