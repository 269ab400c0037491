// References when packets are lost, repeated or forged, and when workers die.
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tests/rpc/reference/rref_steps.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(rref_losses)

using namespace rref_steps;
using tendril::testing::seeds;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(lost_creation_fails_for_all_users) {
  Simulation s(3, test_seed());
  Handle created = s.remote(0, 1);
  s.network.clear();
  s.call(0, 2, Simulation::keep, {created});
  s.to_here(0, created);
  s.settle(false);
  BOOST_TEST(s.handles(2).empty());  // parked: the owner does not know the object yet
  BOOST_TEST(s.fetch_failed == 0u);
  s.cancel(0, 1, 1);
  s.settle(false);
  BOOST_TEST(s.fetch_failed == 1u);
  BOOST_TEST(contains(text(created->failure()), "timed out"));
  BOOST_TEST(!s.call(0, 2, Simulation::keep, {created}));
  BOOST_REQUIRE(s.handles(2).size() == 1u);
  s.to_here(2, s.handles(2)[0]);
  s.settle(false);
  BOOST_TEST(s.fetch_failed == 2u);
  created.reset();
  finish(s);
}

BOOST_AUTO_TEST_CASE(late_cancelled_creation_does_not_run) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  const Packet late = s.network.front();
  s.network.clear();
  s.cancel(0, 1, 1);
  s.settle();
  s.network.push_back(late);
  finish(s);
  BOOST_TEST(s.served == 0u);
}

BOOST_AUTO_TEST_CASE(cancelled_running_creation_leaves_no_references) {
  Simulation s(2, test_seed());
  s.remote(0, 1);
  s.deliver();
  s.cancel(0, 1, 1);
  drop(s, 0);
  while (s.deliver()) {
  }
  finish(s);
  BOOST_TEST(s.served == 1u);
}

BOOST_AUTO_TEST_CASE(repeated_fork_request_does_not_revive_object) {
  Simulation s(3, test_seed());
  s.remote(0, 1);
  s.settle();
  std::vector<Packet> requests;
  s.on_send = [&](uint64_t, const Packet& packet) {
    if (packet.kind == Packet::control && packet.from == 2 && packet.to == 1) requests.push_back(packet);
    return true;
  };
  s.call(0, 2, Simulation::keep, s.handles(0));
  s.settle();
  BOOST_REQUIRE(!requests.empty());
  drop(s, 0);
  drop(s, 2);
  s.settle();
  BOOST_TEST(s.sum().none());
  for (const Packet& packet : std::exchange(requests, {})) s.network.push_back(packet);
  finish(s);
}

BOOST_AUTO_TEST_CASE(dead_users_forks_are_dropped) {
  Simulation s(3, test_seed());
  s.remote(0, 1);
  s.settle();
  s.call(0, 2, Simulation::keep, s.handles(0));
  s.settle();
  s.kill(0);
  s.settle();
  BOOST_TEST((s.counters(1) == RRefCounters{.owner_rrefs = 1, .forks = 1}));
  s.kill(2);
  s.settle();
  BOOST_TEST(s.counters(1).none());
  BOOST_TEST(s.alive_objects() == 0);
}

BOOST_AUTO_TEST_CASE(references_to_dead_owner_fail) {
  Simulation s(3, test_seed());
  const Handle handle = s.remote(0, 1);
  s.settle();
  s.kill(1);
  s.settle();
  BOOST_TEST(contains(text(handle->failure()), "owner_lost"));
  s.restart(1);
  BOOST_TEST(!s.to_here(0, handle));
  BOOST_TEST(!s.call(0, 2, Simulation::keep, {handle}));
  finish(s);
}

BOOST_AUTO_TEST_CASE(unregistered_child_of_dead_parent_is_lost) {
  Simulation s(3, test_seed());
  s.remote(0, 1);
  s.settle();
  s.call(0, 2, Simulation::keep, s.handles(0));
  BOOST_TEST(deliver(s, 0, 2));  // parked on 2; the fork request is on its way
  s.kill(0);
  BOOST_TEST(deliver(s, 0, 1));  // the owner learns of the death first
  BOOST_TEST(s.counters(1).none());
  BOOST_TEST(deliver(s, 2, 1));
  s.settle();
  BOOST_TEST(contains(s.last_refusal, "reference_lost"));
  BOOST_TEST(s.handles(2).empty());
  finish(s);
}

BOOST_AUTO_TEST_CASE(registered_child_survives_dead_parent) {
  Simulation s(3, test_seed());
  s.remote(0, 1);
  s.settle();
  s.call(0, 2, Simulation::keep, s.handles(0));
  BOOST_TEST(deliver(s, 0, 2));
  s.kill(0);
  BOOST_TEST(deliver(s, 2, 1));
  s.settle();
  BOOST_REQUIRE(s.handles(2).size() == 1u);
  s.to_here(2, s.handles(2)[0]);
  s.settle();
  BOOST_TEST(s.fetched == 1u);
  finish(s);
}

BOOST_AUTO_TEST_CASE(dead_creator_ends_wait_for_creation) {
  Simulation s(3, test_seed());
  const Handle created = s.remote(0, 1);
  s.network.clear();
  s.call(0, 2, Simulation::keep, {created});
  s.settle(false);
  BOOST_TEST(s.parked == 1);
  s.kill(0);
  s.settle();
  BOOST_TEST(s.parked == 0);
  BOOST_TEST(contains(s.last_refusal, "reference_lost"));
  finish(s);
}

BOOST_AUTO_TEST_CASE(creation_of_earlier_session_is_not_awaited) {
  Simulation s(3, test_seed());
  Handle created = s.remote(0, 1);
  s.network.clear();
  s.call(0, 2, Simulation::keep, {created});
  const Packet late = s.network.back();
  s.network.clear();
  s.cut(0, 1);
  s.settle(false);
  s.connect(0, 1);
  s.settle(false);
  BOOST_TEST(s.network.empty());  // a new session alone sends no record
  s.network.push_back(late);
  s.settle(false);
  BOOST_TEST(s.parked == 0);
  BOOST_TEST(contains(s.last_refusal, "reference_lost"));
  created.reset();
  finish(s);
}

BOOST_AUTO_TEST_CASE(lost_reply_with_references_is_undone) {
  Simulation s(2, test_seed());
  s.on_send = [](uint64_t, const Packet& packet) {
    return packet.kind != Packet::call || packet.message.kind == MessageKind::request;
  };
  s.call(0, 1, Simulation::make, {});
  s.settle(false);
  BOOST_TEST(s.counters(1).forks == 1u);
  s.cancel(0, 1, 1);
  s.settle();
  BOOST_TEST(s.sum().none());
  BOOST_TEST(s.alive_objects() == 0);
}

BOOST_AUTO_TEST_CASE(repeated_parked_reply_is_accepted_once) {
  Simulation s(3, test_seed());
  s.remote(0, 2);
  s.settle();
  s.on_send = [&](uint64_t, const Packet& packet) {
    if (packet.kind == Packet::call && packet.message.kind == MessageKind::reply) s.network.push_back(packet);
    return true;
  };
  s.call(0, 1, Simulation::give_back, s.handles(0));
  s.settle();
  BOOST_TEST(s.handles(0).size() == 2u);
  BOOST_TEST(s.last_refusal == "");
  finish(s);
}

BOOST_AUTO_TEST_CASE(forged_records_do_not_release_held_objects) {
  for (const uint64_t seed : seeds({}, 300)) {
    Simulation s(3, seed);
    s.remote(0, 1);
    s.settle();
    const Handle held = s.handles(0)[0];
    ControlChannel liar;  // worker 2's end of its channel to worker 1, not used before
    const auto small = [&](uint64_t limit) { return s.random() % limit; };
    for (int i = 0; i < 50; ++i) {
      ControlRecord record;
      record.kind = static_cast<ControlRecord::Kind>(1 + small(9));
      record.message = small(2) == 0 ? MessageKind::request : MessageKind::reply;
      record.call_id = small(4);
      record.rref = held->id();
      if (small(2) == 0) record.rref.worker = static_cast<WorkerId>(small(4));
      if (small(2) == 0) record.rref.incarnation = 100 + small(5);
      if (small(2) == 0) record.rref.number = small(3) << 48 | small(8);
      record.fork = held->fork();
      if (small(2) == 0) record.fork.worker = static_cast<WorkerId>(small(4));
      if (small(2) == 0) record.fork.number = small(8);
      try {
        s.table(1).control_received({"worker2", 2}, liar.send({record}, s.now));
      } catch (const MessageError&) {
      }
    }
    BOOST_TEST(s.alive_objects() == 1, "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(fault_at_any_packet_leaves_no_references) {
  const auto program = [](Simulation& s) {
    const Handle first = s.remote(0, 1);
    if (first) {
      s.call(0, 2, Simulation::keep, {first});
      s.to_here(0, first);
      s.call(0, 1, Simulation::relay, {first}, 4);
    }
    s.settle(false);
    if (first) s.remote(0, 2, {first});
    s.call(1, 2, Simulation::make, {});
    if (s.is_alive(2) && !s.handles(2).empty()) s.call(2, 0, Simulation::give_back, s.handles(2));
    s.settle(false);
    if (s.is_alive(1)) s.call(1, 0, Simulation::relay, s.handles(1), 8);
    drop(s, 0);
  };
  enum Mischief { lose, repeat, postpone, cut, kill_sender, kill_receiver, none };
  for (int mischief = lose; mischief < none; ++mischief) {
    for (uint64_t n = 1;; ++n) {
      Simulation s(3, test_seed());
      Packet hit;
      s.on_send = [&](uint64_t number, const Packet& packet) {
        if (number != n) return true;
        hit = packet;
        switch (mischief) {
          case lose:
            return false;
          case repeat:
            s.network.push_back(packet);
            return true;
          case postpone:
            return false;
          case cut:
            s.next_action = [&] { s.cut(hit.from, hit.to); };
            return true;
          case kill_sender:
            s.next_action = [&] { s.kill(hit.from); };
            return true;
          default:
            s.next_action = [&] { s.kill(hit.to); };
            return true;
        }
      };
      try {
        program(s);
        if (mischief == postpone && hit.to >= 0) {
          s.settle();
          s.network.push_back(hit);
        }
        s.finish();
      } catch (const std::exception& error) {
        BOOST_ERROR("mischief " << mischief << ", packet " << n << ": " << error.what());
      }
      if (s.packets < n) break;
      BOOST_REQUIRE(n < 1000u);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
