#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tests/rpc/reference/rref_steps.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(rref_protocol)

using namespace rref_steps;
using tendril::testing::seeds;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(counters_track_references_and_return_to_zero) {
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

BOOST_AUTO_TEST_CASE(local_object_is_not_counted) {
  Simulation s(2, test_seed());
  const Handle local = s.make_local(0);
  BOOST_TEST(s.sum().none());
  s.call(0, 1, Simulation::keep, {local});
  s.settle();
  BOOST_TEST(s.counters(0).owner_rrefs == 1u);
  drop(s, 1);
  s.settle();
  BOOST_TEST(s.sum().none());
  BOOST_TEST(s.alive_objects() == 1);  // held by the local handle
}

BOOST_AUTO_TEST_CASE(reference_returned_to_owner_is_the_original) {
  Simulation s(2, test_seed());
  const Handle local = s.make_local(0);
  s.call(0, 1, Simulation::give_back, {local});
  s.settle();
  BOOST_REQUIRE(s.handles(0).size() == 2u);
  BOOST_TEST(s.handles(0)[1] == local);
}

BOOST_AUTO_TEST_CASE(object_call_takes_only_request_and_reply) {
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

BOOST_AUTO_TEST_CASE(call_keeps_its_object_alive) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  s.settle();
  s.to_here(0, s.handles(0)[0]);
  drop(s, 0);
  s.settle(false);
  BOOST_TEST(s.fetched == 1u);
  BOOST_TEST(s.alive_objects() == 0);
  // A cancelled call holds nothing. Its request fails if it arrives late, and the caller ignores the failure.
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

BOOST_AUTO_TEST_CASE(call_without_reference_is_rejected) {
  for (const uint64_t seed : seeds({}, 300)) {
    Simulation s(3, seed);
    s.remote(0, 1);
    s.settle();
    const Handle held = s.handles(0)[0];
    const uint64_t served = s.served;
    // Worker 2 forges calls on the object: with the fork of worker 0, or with one that no worker has.
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

BOOST_AUTO_TEST_CASE(deletion_waits_for_pending_creation) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  drop(s, 0);
  BOOST_TEST(s.network.size() == 1u);  // the request, but no deletion
  s.on_timer(std::chrono::milliseconds(1000));
  BOOST_TEST(s.network.size() == 1u);
  finish(s);
  BOOST_TEST(s.served == 1u);
}

BOOST_AUTO_TEST_CASE(throwing_constructor_fails_every_fetch) {
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

BOOST_AUTO_TEST_CASE(dropped_parent_keeps_child_alive_over_hops) {
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

BOOST_AUTO_TEST_CASE(object_destructor_can_drop_references) {
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

BOOST_AUTO_TEST_CASE(shutdown_releases_leaked_handles) {
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

BOOST_AUTO_TEST_CASE(closed_table_fails_references) {
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

BOOST_AUTO_TEST_CASE(invalid_references_are_rejected) {
  Simulation s(3, test_seed());
  BOOST_CHECK_THROW(s.table(0).make_user(7), RRefError);
  const Handle unsent = s.table(0).make_user(1);
  BOOST_TEST(!s.call(0, 2, Simulation::keep, {unsent}));  // before the call that creates it
  const Handle foreign = s.make_local(1);
  BOOST_TEST(!s.call(0, 2, Simulation::keep, {foreign}));  // belongs to another agent
}

BOOST_AUTO_TEST_SUITE_END()
