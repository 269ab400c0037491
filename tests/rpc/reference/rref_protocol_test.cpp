#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tests/rpc/reference/rref_steps.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(rref_protocol)

using namespace rref_steps;
using tendril::testing::seeds;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(counters_show_what_is_held_and_return_to_zero) {
  Simulation s(3, test_seed());
  const WorkerId owner = 1;
  s.remote(0, owner);
  BOOST_TEST(s.counters(0).pending_users == 1u);
  BOOST_TEST(s.counters(0).pending_children == 1u);
  s.settle();
  BOOST_TEST((s.counters(0) == RRefCounters{.users = 1}));
  BOOST_TEST((s.counters(owner) == RRefCounters{.owner_rrefs = 1, .forks = 1}));
  s.call(0, 2, Simulation::keep, s.handles(0));
  s.settle();
  BOOST_TEST((s.counters(2) == RRefCounters{.users = 1}));
  BOOST_TEST((s.counters(owner) == RRefCounters{.owner_rrefs = 1, .forks = 2}));
  drop(s, 0);
  s.settle();
  BOOST_TEST(s.alive_objects() == 1);
  finish(s);
}

BOOST_AUTO_TEST_CASE(an_object_that_never_travelled_is_not_counted) {
  Simulation s(2, test_seed());
  const Handle local = s.make_local(0);
  BOOST_TEST(s.sum().none());
  s.call(0, 1, Simulation::keep, {local});
  s.settle();
  BOOST_TEST(s.counters(0).owner_rrefs == 1u);
  drop(s, 1);
  s.settle();
  BOOST_TEST(s.sum().none());
  BOOST_TEST(s.alive_objects() == 1);  // the local handle's
}

BOOST_AUTO_TEST_CASE(a_reference_that_comes_home_is_the_owners_own) {
  Simulation s(2, test_seed());
  const Handle local = s.make_local(0);
  s.call(0, 1, Simulation::give_back, {local});
  s.settle();
  BOOST_REQUIRE(s.handles(0).size() == 2u);
  BOOST_TEST(s.handles(0)[1] == local);
}

BOOST_AUTO_TEST_CASE(a_call_on_an_object_takes_a_request_and_a_reply_and_nothing_else) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  s.settle();
  const uint64_t before = s.packets;
  for (int i = 0; i < 5; ++i) s.to_here(0, s.handles(0)[0]);
  BOOST_TEST(s.counters(0).pending_children == 0u);
  s.settle();
  BOOST_TEST(s.fetched == 5u);
  BOOST_TEST(s.packets - before == 10u);
  finish(s);
}

BOOST_AUTO_TEST_CASE(a_call_holds_its_object_until_it_has_ended) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  s.settle();
  s.to_here(0, s.handles(0)[0]);
  drop(s, 0);
  s.settle(false);
  BOOST_TEST(s.fetched == 1u);
  BOOST_TEST(s.alive_objects() == 0);
  // One that is cancelled holds nothing: it fails if it comes late, and nobody hears of that.
  s.remote(0, 1);
  s.settle();
  s.to_here(0, s.handles(0)[0]);
  const Packet late = s.network.front();
  s.network.clear();
  drop(s, 0);
  s.cancel(0, 1, 4);
  while (deliver(s, 0, 1) && s.alive_objects() > 0) {
  }
  BOOST_TEST(s.alive_objects() == 0);
  finish(s);
}

BOOST_AUTO_TEST_CASE(who_does_not_hold_an_object_cannot_call_it) {
  for (const uint64_t seed : seeds({}, 300)) {
    Simulation s(3, seed);
    s.remote(0, 1);
    s.settle();
    const Handle held = s.handles(0)[0];
    const uint64_t served = s.served;
    // Worker 2 says that it calls the object, by the fork that worker 0 has of it or one that nobody has.
    s.on_send = [&](uint64_t, const Packet&) { return true; };
    for (int i = 0; i < 20; ++i) {
      BOOST_REQUIRE(s.call(2, 1, Simulation::method, {s.make_local(2)}));
      ForkDescriptor& said = s.network.back().message.forks.at(0);
      said = {.kind = ForkDescriptor::receiver,
              .owner = 1,
              .owner_incarnation = 102,
              .rref = held->id(),
              .fork_id = held->fork()};
      const auto small = [&](uint64_t limit) { return s.random() % limit; };
      if (small(3) == 0) said.owner_incarnation = 100 + small(4);
      if (small(3) == 0) said.rref.worker = static_cast<WorkerId>(small(4));
      if (small(3) == 0) said.rref.number = small(3) << 48 | small(8);
      if (small(3) == 0) said.fork_id.worker = static_cast<WorkerId>(small(4));
      if (small(3) == 0) said.fork_id.number = small(8);
    }
    s.settle();
    BOOST_TEST(s.served == served, "seed " << seed);
    BOOST_TEST(s.alive_objects() >= 1, "seed " << seed);
    BOOST_TEST(!s.objects.at(held->id()).expired());
  }
}

BOOST_AUTO_TEST_CASE(a_deletion_waits_for_a_creation_that_it_might_overtake) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  drop(s, 0);
  BOOST_TEST(s.network.size() == 1u);  // the request, and no deletion
  s.on_timer(std::chrono::milliseconds(1000));
  BOOST_TEST(s.network.size() == 1u);
  finish(s);
  BOOST_TEST(s.served == 1u);
}

BOOST_AUTO_TEST_CASE(a_constructor_that_throws_fails_every_fetch) {
  Simulation s(3, test_seed());
  Handle created = s.remote(0, 1, {}, Simulation::create_fail);
  s.to_here(0, created);
  s.call(0, 2, Simulation::keep, {created});
  s.settle();
  BOOST_TEST(s.fetch_failed == 1u);
  s.to_here(2, s.handles(2).at(0));
  s.settle();
  BOOST_TEST(s.fetch_failed == 2u);
  created.reset();
  finish(s);
}

BOOST_AUTO_TEST_CASE(a_parent_dropped_at_once_still_carries_its_child_eight_hops_far) {
  for (int workers = 2; workers <= 5; ++workers) {
    Simulation s(workers, test_seed());
    s.remote(0, 1);
    s.call(0, 1, Simulation::relay, s.handles(0), 8);
    drop(s, 0);
    s.settle();
    const auto last = static_cast<WorkerId>(9 % workers);
    BOOST_REQUIRE(s.handles(last).size() == 1u);
    const Handle end = s.handles(last)[0];
    if (!end->is_owner()) BOOST_TEST(s.to_here(last, end));
    s.settle();
    BOOST_TEST(s.alive_objects() == 1);
    BOOST_TEST(s.fetch_failed == 0u);
  }
}

BOOST_AUTO_TEST_CASE(an_object_may_hold_references_and_drop_them_when_it_dies) {
  Simulation s(3, test_seed());
  s.remote(0, 1);
  s.remote(0, 2);
  s.settle();
  const RRefId outer = s.handles(0)[0]->id();
  s.call(0, 1, Simulation::keep, {s.handles(0)[1]});
  s.settle();
  s.objects.at(outer).lock()->inner = s.handles(1).at(0);
  drop(s, 1);
  drop(s, 0);
  BOOST_TEST(s.alive_objects() == 2);
  finish(s);
}

BOOST_AUTO_TEST_CASE(handles_that_leaked_are_released_at_shutdown) {
  Simulation s(2, test_seed());
  const Handle confirmed = s.remote(0, 1);
  s.settle();
  const Handle pending = s.remote(0, 1);
  s.table(0).release_users();
  s.settle();
  BOOST_TEST(s.counters(1).none());
  BOOST_TEST(s.counters(0).none());
  BOOST_TEST(contains(text(confirmed->failure()), "shut down"));
  BOOST_TEST(contains(text(pending->failure()), "shut down"));
}

BOOST_AUTO_TEST_CASE(after_the_end_references_fail_and_handles_may_still_be_dropped) {
  Simulation s(2, test_seed());
  Handle handle = s.remote(0, 1);
  s.settle();
  s.table(0).close();
  s.table(0).close();
  BOOST_TEST(contains(text(handle->failure()), "shut down"));
  BOOST_CHECK_THROW(s.table(0).make_owner(), RRefError);
  BOOST_CHECK_THROW(s.table(0).make_user(1), RRefError);
  drop(s, 0);
  handle.reset();
}

BOOST_AUTO_TEST_CASE(references_are_refused_where_they_make_no_sense) {
  Simulation s(3, test_seed());
  BOOST_CHECK_THROW(s.table(0).make_user(7), RRefError);
  const Handle unsent = s.table(0).make_user(1);
  BOOST_TEST(!s.call(0, 2, Simulation::keep, {unsent}));  // before the call that creates it
  const Handle foreign = s.make_local(1);
  BOOST_TEST(!s.call(0, 2, Simulation::keep, {foreign}));  // another agent's
}

BOOST_AUTO_TEST_SUITE_END()
