// What is recorded where, and that it goes.
#include "tests/dist/group.h"

BOOST_AUTO_TEST_SUITE(context)

using namespace dist_test;

Tensor twice(const Tensor& x) { return x * 2; }
int64_t count(int64_t x) { return x + 1; }
BOOST_AUTO_TEST_CASE(a_call_records_one_send_and_one_recv_node_on_each_side) {
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

BOOST_AUTO_TEST_CASE(tensors_that_need_no_gradient_make_no_nodes_and_yet_the_context_is_known) {
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

BOOST_AUTO_TEST_CASE(a_context_within_another_is_refused) {
  const Group group(1);
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(const Context second(group[0]), AutogradError,
                        says("recorded in context 0.", "already; contexts do not nest"));
}

BOOST_AUTO_TEST_SUITE_END()
