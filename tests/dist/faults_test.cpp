// Messages that are lost, repeated and delayed: right gradients or an error in time, and nothing left in the end.
#include <chrono>

#include "tendril/rpc/error.h"
#include "tests/dist/group.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(faults)

using namespace dist_test;
using tendril::testing::seeds;

Tensor times_itself(const Tensor& x) { return x * x; }
Tensor through_2(const Tensor& x) { return rpc::rpc_sync<&times_itself>(Cluster::agent(1), 2, x * 2); }
namespace {

struct Outcomes {
  int right = 0, errors = 0;
};

/// One iteration over three workers, with an unused output on odd seeds. `deadline`: of each call and the backward.
void iterate(const Group& group, uint64_t seed, std::chrono::milliseconds deadline, Outcomes& outcomes) {
  const Tensor x = leaf({1, 2});
  const rpc::CallOptions soon{.timeout = deadline};
  const auto start = rpc::Clock::now();
  try {
    const Context context(group[0]);
    const Tensor y = rpc::rpc_sync<&through_2>(group[0], 1, soon, x);
    if (seed % 2) rpc::rpc_sync<&times_itself>(group[0], 2, soon, y);
    backward(context, {y.sum()}, {.timeout = deadline});
    BOOST_TEST(values(get_gradients(context).at(x)) == Values({8, 16}), "seed " << seed);
    ++outcomes.right;
  } catch (const rpc::RpcError&) {
    ++outcomes.errors;
  } catch (const AutogradError&) {
    ++outcomes.errors;
  }
  BOOST_TEST((rpc::Clock::now() - start < 3 * deadline + 30s), "seed " << seed);
}

}  // namespace

BOOST_AUTO_TEST_CASE(lost_repeated_and_delayed_messages_end_in_right_gradients_or_an_error_in_time) {
  const Group group(3);
  Outcomes outcomes;
  int rounds = 0;
  for (const uint64_t seed : seeds({}, 200)) {
    if (++rounds > 14 && outcomes.right > 0 && outcomes.errors > 0) break;
    group.network().set_rule(rpc::random_faults(seed, {.lose = 0.03, .repeat = 0.1, .delay = 0.2}));
    iterate(group, seed, 1s, outcomes);  // which a lost message takes
  }
  BOOST_TEST(outcomes.right > 0);
  BOOST_TEST(outcomes.errors > 0);
  group.network().set_rule({});
}

BOOST_AUTO_TEST_CASE(repeated_and_delayed_messages_alone_never_fail) {
  const Group group(3);
  Outcomes outcomes;
  for (const uint64_t seed : seeds({}, 40)) {
    group.network().set_rule(
        rpc::random_faults(seed, {.repeat = 0.3, .delay = 0.4, .max_delay = std::chrono::microseconds(500)}));
    iterate(group, seed, 60s, outcomes);  // nothing takes it: no machine is so busy
  }
  BOOST_TEST(outcomes.errors == 0);
}

BOOST_AUTO_TEST_CASE(a_connection_cut_at_any_message_is_an_error_or_right_gradients_and_nothing_is_left) {
  Outcomes outcomes;
  for (uint64_t n = 1; n <= 24; ++n) {
    const Group group(3);
    group.network().set_rule(rpc::nth_message(n, {.cut = true}));
    iterate(group, n, 10s, outcomes);
    group.network().set_rule({});
  }
  BOOST_TEST(outcomes.right > 0);
  BOOST_TEST(outcomes.errors > 0);
}

BOOST_AUTO_TEST_SUITE_END()
