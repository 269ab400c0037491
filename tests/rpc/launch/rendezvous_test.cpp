// timeout: 120
#include "tendril/rpc/launch/rendezvous.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tendril/rpc/error.h"

using namespace tendril::rpc;
using namespace std::chrono_literals;

namespace {

using Kind = RendezvousKind;

/// A server, what it sent to each connection, and a clock that stands still.
struct Scene {
  explicit Scene(int world_size) : server(world_size, "group-id") {}

  void deliver(int connection, const RendezvousMessage& message) {
    server.received(connection, message, now);
    collect();
  }
  void join(int connection, WorkerId rank, const std::string& name, uint64_t timeout_ms = 0, int world_size = 0) {
    deliver(connection, {.kind = Kind::join,
                         .text = connection == 10 ? std::string("group-id") : std::string(),
                         .worker = {name, rank},
                         .world_size = world_size == 0 ? 3 : world_size,
                         .timeout_ms = timeout_ms});
  }
  void contribute(int connection, uint32_t round, const std::string& phase, const std::string& part,
                  uint64_t timeout_ms = 0) {
    RendezvousMessage message{.kind = Kind::contribute};
    message.text = phase;
    message.round = round;
    message.timeout_ms = timeout_ms;
    message.parts.push_back(part);
    deliver(connection, message);
  }
  void close(int connection) {
    server.closed(connection);
    collect();
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    server.on_timer(now);
    collect();
  }
  void collect() {
    for (const auto& action : server.take_actions()) {
      if (!action.bytes.empty()) sent[action.to].push_back(decode_rendezvous(action.bytes));
      if (action.close) closed[action.to] = true;
    }
  }
  void join_all() {
    join(10, 0, "a");
    join(11, 1, "b");
    join(12, 2, "c");
    sent.clear();
  }
  const RendezvousMessage& only(int connection) {
    BOOST_REQUIRE(sent[connection].size() == 1);
    return sent[connection][0];
  }
  void expect_refused(int connection, const std::string& text) {
    BOOST_TEST((only(connection).kind == Kind::refused));
    BOOST_TEST(only(connection).text == text);
  }

  RendezvousServer server;
  Clock::time_point now{};
  std::map<int, std::vector<RendezvousMessage>> sent;
  std::map<int, bool> closed;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(rendezvous)

BOOST_AUTO_TEST_CASE(a_message_survives_its_bytes) {
  RendezvousMessage message{.kind = Kind::contribute};
  message.text = "phase";
  message.failure = GroupFailure::lost;
  message.worker = {"name", 3};
  message.world_size = 4;
  message.round = 5;
  message.timeout_ms = 6;
  message.parts = {"x", std::string(1, '\0'), ""};
  const Bytes bytes = encode(message);
  BOOST_TEST(rendezvous_body_size(bytes, 1000) == bytes.size() - kRendezvousPrefixBytes);
  const RendezvousMessage back = decode_rendezvous(bytes);
  BOOST_TEST((back.kind == message.kind && back.failure == message.failure && back.worker == message.worker));
  BOOST_TEST(back.text == message.text);
  BOOST_TEST(back.parts == message.parts);
  BOOST_TEST((back.world_size == 4 && back.round == 5 && back.timeout_ms == 6));
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_message_are_refused) {
  Bytes bytes = encode({.kind = Kind::join, .text = "text"});
  BOOST_CHECK_THROW(rendezvous_body_size(bytes, 8), MessageError);
  for (std::size_t size = kRendezvousPrefixBytes; size < bytes.size(); ++size)
    BOOST_CHECK_THROW(decode_rendezvous(std::span(bytes).first(size)), MessageError);
  bytes.push_back(std::byte{0});
  BOOST_CHECK_THROW(decode_rendezvous(bytes), MessageError);
  bytes[5] = std::byte{'!'};
  BOOST_CHECK_THROW(rendezvous_body_size(bytes, 1000), MessageError);
}

BOOST_AUTO_TEST_CASE(nobody_is_welcome_before_all_have_joined) {
  Scene scene(3);
  scene.join(10, 0, "a");
  scene.join(12, 2, "c");
  BOOST_TEST(scene.sent.empty());
  scene.join(11, 1, "b");
  for (const int connection : {10, 11, 12}) {
    BOOST_TEST((scene.only(connection).kind == Kind::welcome));
    BOOST_TEST(scene.only(connection).text == "group-id");
    BOOST_TEST(scene.only(connection).parts == (std::vector<std::string>{"a", "b", "c"}));
  }
}

BOOST_AUTO_TEST_CASE(who_cannot_belong_to_the_group_is_told_why_and_named_when_a_worker_is_missing) {
  struct Case {
    WorkerId rank;
    std::string name;
    int world_size;
    std::string text;
  };
  const std::vector<Case> cases = {
      {0, "b", 3, "two workers have rank 0: 'a' and 'b'"},
      {1, "a", 3, "the name 'a' is not unique: ranks 0 and 1 have it"},
      {3, "b", 3, "rank 3 ('b') is out of range: the world size is 3"},
      {-1, "b", 3, "rank -1 ('b') is out of range: the world size is 3"},
      {1, "b", 4, "world sizes differ: rank 0 says 3, rank 1 ('b') says 4"},
      {1, "", 3, "rank 1: the name '' is not 1 to 127 characters of A-Z a-z 0-9 - _ :"},
      {1, "b b", 3, "rank 1: the name 'b b' is not 1 to 127 characters of A-Z a-z 0-9 - _ :"},
      {1, "\xC3\xA4", 3,
       "rank 1: the name '?"
       "?' is not 1 to 127 characters of A-Z a-z 0-9 - _ :"},
      {1, std::string(128, 'x'), 3,
       "rank 1: the name '" + std::string(64, 'x') + "...' is not 1 to 127 characters of A-Z a-z 0-9 - _ :"},
  };
  for (const Case& one : cases) {
    Scene scene(3);
    scene.join(10, 0, "a", 5000);
    scene.join(11, one.rank, one.name, 0, one.world_size);
    scene.expect_refused(11, one.text);
    BOOST_TEST(scene.closed[11]);
    scene.close(11);
    scene.join(12, 2, "c");
    BOOST_TEST(scene.sent[10].empty());
    scene.pass(5s);
    for (const int connection : {10, 12})
      scene.expect_refused(connection,
                           "after 5 s these workers have not joined: rank 1 (of world size 3); refused: " + one.text);
  }
  BOOST_TEST(name_problem("Az09-_:").empty());
  BOOST_TEST(name_problem(std::string(127, 'x')).empty());
}

BOOST_AUTO_TEST_CASE(another_version_is_refused_and_can_read_why) {
  Scene scene(3);
  scene.join(10, 0, "a");
  RendezvousMessage newer{.kind = Kind::join, .version = 7, .worker = {"b", 1}, .world_size = 3};
  newer.parts.resize(4);
  const Bytes bytes = encode(newer);
  const RendezvousMessage seen = decode_rendezvous(bytes);
  BOOST_TEST(seen.worker.name.empty());  // of another version no more than kind and text is believed
  scene.deliver(11, seen);
  BOOST_TEST(contains(scene.only(11).text, "speaks version 7 of the rendezvous, rank 0 version 1"));
  BOOST_TEST(scene.closed[11]);
}

BOOST_AUTO_TEST_CASE(strangers_neither_keep_a_group_from_forming_nor_end_it) {
  Scene scene(3);
  int stranger = 100;
  const auto knock = [&] {
    scene.deliver(++stranger, {.kind = Kind::join, .version = 7, .worker = {"x", 1}, .world_size = 3});
    scene.join(++stranger, 1, "x", 1, 7);
    scene.join(++stranger, -5, "x", 1);
    scene.join(++stranger, 0, "x", 1);
    scene.join(++stranger, 2, "no name", 1);
    scene.deliver(++stranger, {.kind = Kind::contribute, .text = "barrier"});
    scene.deliver(++stranger, {.kind = Kind::fail, .text = "give up"});
    for (int i = 101; i <= stranger; ++i) BOOST_TEST(scene.closed[i]);
    scene.pass(1s);
  };
  knock();
  scene.join(10, 0, "a");
  knock();
  scene.join(11, 1, "b");
  scene.join(12, 2, "c");
  BOOST_TEST((scene.only(10).kind == Kind::welcome));
  scene.sent.clear();
  for (uint32_t round = 0; round < 2; ++round) {
    knock();
    scene.contribute(10, round, "phase", "A");
    knock();
    scene.contribute(11, round, "phase", "B");
    scene.contribute(12, round, "phase", "C");
    BOOST_TEST((scene.only(12).kind == Kind::gathered));
    scene.sent.clear();
  }
  BOOST_TEST(!scene.server.failed());
}

BOOST_AUTO_TEST_CASE(who_was_refused_is_remembered_up_to_a_bound) {
  Scene scene(3);
  for (int i = 0; i < 1000; ++i) scene.join(100 + i, 7 + i, "x");
  scene.join(10, 0, "a", 1000);
  scene.pass(1s);
  BOOST_TEST(scene.only(10).text.size() < 1000u);
}

BOOST_AUTO_TEST_CASE(workers_that_do_not_join_in_time_are_named) {
  Scene scene(3);
  scene.join(10, 0, "a", 5000);
  scene.pass(3s);
  scene.join(12, 2, "c", 1500);  // the least patient decides
  scene.pass(1499ms);
  BOOST_TEST(scene.sent.empty());
  scene.pass(1ms);
  for (const int connection : {10, 12}) {
    scene.expect_refused(connection, "after 1500 ms these workers have not joined: rank 1 (of world size 3)");
    BOOST_TEST((scene.only(connection).failure == GroupFailure::timeout));
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_vanishes_before_the_group_is_complete_may_come_again) {
  Scene scene(3);
  scene.join(10, 0, "a");
  scene.join(11, 1, "b");
  scene.close(11);
  scene.join(21, 1, "bb");
  scene.join(12, 2, "c");
  BOOST_TEST(scene.only(21).parts == (std::vector<std::string>{"a", "bb", "c"}));
}

BOOST_AUTO_TEST_CASE(a_worker_that_vanishes_takes_its_deadline_along) {
  Scene scene(3);
  scene.join(10, 0, "a", 60'000);
  scene.join(11, 1, "hasty", 1);
  scene.close(11);
  scene.pass(10s);
  BOOST_TEST(!scene.server.failed());
  scene.pass(50s);
  BOOST_TEST(contains(scene.only(10).text, "after 60 s these workers have not joined: rank 1, rank 2"));
}

BOOST_AUTO_TEST_CASE(late_comers_of_a_complete_group_are_told_to_wait) {
  Scene scene(3);
  scene.join_all();
  scene.join(13, 1, "d");
  BOOST_TEST((scene.only(13).kind == Kind::busy));
  BOOST_TEST(scene.only(13).text == "there is a group of 3 workers already, whose rank 1 is 'b'");
  BOOST_TEST(scene.closed[13]);
  scene.contribute(10, 0, "p", "");
  BOOST_TEST(!scene.server.failed());
}

BOOST_AUTO_TEST_CASE(a_gathering_gives_every_contribution_to_everybody_round_after_round) {
  Scene scene(3);
  scene.join_all();
  for (uint32_t round = 0; round < 3; ++round) {
    scene.sent.clear();
    scene.contribute(12, round, "phase", "C");
    scene.contribute(10, round, "phase", "A");
    BOOST_TEST(scene.sent.empty());
    scene.contribute(11, round, "phase", "B");
    for (const int connection : {10, 11, 12}) {
      BOOST_TEST((scene.only(connection).kind == Kind::gathered && scene.only(connection).round == round));
      BOOST_TEST(scene.only(connection).parts == (std::vector<std::string>{"A", "B", "C"}));
    }
  }
}

BOOST_AUTO_TEST_CASE(workers_that_miss_a_gathering_are_named) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(11, 0, "connecting", "", 2000);
  scene.pass(2s);
  scene.expect_refused(
      10, "after 2 s these workers have not reached 'connecting': worker 'a' (rank 0), worker 'c' (rank 2)");
  BOOST_TEST((scene.only(11).failure == GroupFailure::timeout));
  scene.contribute(10, 0, "connecting", "");  // it was on its way; it is not told twice
  BOOST_TEST(scene.sent[10].size() == 1);
}

BOOST_AUTO_TEST_CASE(without_a_timeout_a_gathering_waits_for_ever) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(11, 0, "leaving", "");
  BOOST_TEST((scene.server.deadline() == Clock::time_point::max()));
  scene.pass(24h);
  BOOST_TEST(scene.sent.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_lost_before_it_contributed_ends_the_gathering_whenever_it_was_lost) {
  for (const bool before : {true, false}) {
    Scene scene(3);
    scene.join_all();
    if (before) scene.close(12);
    scene.contribute(10, 0, "leaving", "");
    if (!before) scene.close(12);
    scene.expect_refused(10, "worker 'c' (rank 2) is gone while others are at 'leaving'");
    BOOST_TEST((scene.only(10).failure == GroupFailure::lost));
    scene.expect_refused(11, "worker 'c' (rank 2) is gone while others are at 'leaving'");
  }
}

BOOST_AUTO_TEST_CASE(a_worker_lost_after_it_contributed_does_not_disturb_that_gathering) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(12, 0, "leaving", "");
  scene.close(12);
  scene.contribute(10, 0, "leaving", "");
  scene.contribute(11, 0, "leaving", "");
  BOOST_TEST((scene.only(10).kind == Kind::gathered));
}

BOOST_AUTO_TEST_CASE(a_worker_that_left_is_told_apart_from_one_that_was_lost) {
  Scene scene(3);
  scene.join_all();
  scene.deliver(12, {.kind = Kind::leave});
  scene.close(12);
  scene.contribute(10, 0, "barrier", "");
  scene.expect_refused(10, "worker 'c' (rank 2) has left the group while others are at 'barrier'");
}

BOOST_AUTO_TEST_CASE(a_failure_at_one_worker_reaches_all_others) {
  Scene scene(3);
  scene.join_all();
  scene.deliver(11, {.kind = Kind::fail, .text = "no memory"});
  scene.expect_refused(10, "worker 'b' (rank 1) failed: no memory");
  scene.expect_refused(12, "worker 'b' (rank 1) failed: no memory");
  BOOST_TEST(scene.sent[11].empty());
  BOOST_TEST(scene.server.all_told());
}

BOOST_AUTO_TEST_CASE(workers_at_different_places_are_told) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(10, 0, "barrier", "");
  scene.contribute(12, 0, "leaving", "");
  BOOST_TEST(
      contains(scene.only(11).text, "worker 'c' (rank 2) is at 'leaving' while worker 'a' (rank 0) is at 'barrier'"));
}

BOOST_AUTO_TEST_SUITE_END()
