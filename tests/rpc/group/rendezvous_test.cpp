#include <string_view>

#include "tests/rpc/group/rendezvous_scene.h"

BOOST_AUTO_TEST_SUITE(rendezvous)

using namespace tendril::testing;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(messages_survive_encoding) {
  RendezvousMessage message{.kind = Kind::contribute};
  message.text = "phase";
  message.failure = GroupFailure::lost;
  message.question = 5;
  message.timeout_ms = 6;
  message.epoch = 7;
  message.attendance = Attendance::unchanged;
  message.ranks = {0, 2};
  message.parts = {"x", std::string(1, '\0'), ""};
  message.members = {{.rank = 1, .state = MemberState::lost, .epoch = 3, .incarnation = 4, .name = "b", .why = "w"}};
  const RendezvousMessage back = decode_rendezvous(encode(message));
  BOOST_TEST((back.kind == message.kind && back.failure == message.failure));
  BOOST_TEST(back.text == message.text);
  BOOST_TEST(back.parts == message.parts);
  BOOST_TEST((back.question == 5 && back.timeout_ms == 6 && back.epoch == 7));
  BOOST_TEST((back.attendance == Attendance::unchanged && back.ranks == message.ranks));
  const MemberRecord& member = back.members.at(0);
  BOOST_TEST((member.rank == 1 && member.state == MemberState::lost && member.epoch == 3 && member.incarnation == 4));
  BOOST_TEST((member.name == "b" && member.introduction.empty() && member.why == "w"));
  BOOST_TEST(decode_rendezvous(with_question(encode(message), 0x01020304)).question == 0x01020304u);
}

BOOST_AUTO_TEST_CASE(malformed_messages_are_rejected) {
  Bytes bytes = encode({.kind = Kind::join, .text = "text"});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    BOOST_CHECK_THROW(decode_rendezvous(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))),
                      MessageError);
  bytes.push_back(std::byte{0});
  BOOST_CHECK_THROW(decode_rendezvous(bytes), MessageError);
}

BOOST_AUTO_TEST_CASE(welcome_waits_for_all_workers) {
  Scene scene(3);
  scene.join(10, 0, "a");
  scene.join(12, 2, "c");
  BOOST_TEST(scene.sent.empty());
  scene.join(11, 1, "b");
  for (const int session : {10, 11, 12}) {
    BOOST_TEST((scene.only(session).kind == Kind::welcome));
    BOOST_TEST(scene.only(session).epoch == 1u);
    BOOST_TEST(introductions(scene.only(session)) == "a b c ");
  }
}

BOOST_AUTO_TEST_CASE(timeout_error_lists_refused_workers) {
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
      {1, "b", 4, "world sizes differ: rank 0 has 3, rank 1 ('b') has 4"},
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
    BOOST_TEST(scene.refusals.at(11).text == one.text);
    BOOST_TEST(!scene.refusals.at(11).try_later);
    scene.join(12, 2, "c");
    BOOST_TEST(scene.sent[10].empty());
    scene.pass(5s);
    for (const int session : {10, 12})
      scene.expect_refused(session,
                           "after 5 s these workers have not joined: rank 1 (of world size 3); refused: " + one.text);
  }
  BOOST_TEST(name_problem("Az09-_:").empty());
  BOOST_TEST(name_problem(std::string(127, 'x')).empty());
}

BOOST_AUTO_TEST_CASE(strangers_do_not_disturb_the_group) {
  Scene scene(3);
  int stranger = 100;
  const auto disturb = [&] {
    scene.join(++stranger, 1, "x", 1, 7);
    scene.join(++stranger, -5, "x", 1);
    scene.join(++stranger, 0, "x", 1);
    scene.join(++stranger, 2, "no name", 1);
    for (int i = 101; i <= stranger; ++i) BOOST_TEST(scene.refusals.contains(i));
    scene.pass(1s);
  };
  disturb();
  scene.join(10, 0, "a");
  disturb();
  scene.join(11, 1, "b");
  scene.join(12, 2, "c");
  BOOST_TEST((scene.only(10).kind == Kind::welcome));
  scene.sent.clear();
  for (uint32_t round = 0; round < 2; ++round) {
    disturb();
    scene.contribute(10, round, "phase", "A");
    disturb();
    scene.contribute(11, round, "phase", "B");
    scene.contribute(12, round, "phase", "C");
    BOOST_TEST((scene.only(12).kind == Kind::gathered));
    scene.sent.clear();
  }
  BOOST_TEST(!scene.server.failed());
}

BOOST_AUTO_TEST_CASE(list_of_refusals_is_bounded) {
  Scene scene(3);
  for (int i = 0; i < 1000; ++i) scene.join(100 + i, 7 + i, "x");
  scene.join(10, 0, "a", 1000);
  scene.pass(1s);
  BOOST_TEST(scene.only(10).text.size() < 1000u);
}

BOOST_AUTO_TEST_CASE(timeout_error_names_missing_workers) {
  Scene scene(3);
  scene.join(10, 0, "a", 5000);
  scene.pass(3s);
  scene.join(12, 2, "c", 1500);  // the shortest timeout counts
  scene.pass(1499ms);
  BOOST_TEST(scene.sent.empty());
  scene.pass(1ms);
  for (const int session : {10, 12}) {
    scene.expect_refused(session, "after 1500 ms these workers have not joined: rank 1 (of world size 3)");
    BOOST_TEST((scene.only(session).failure == GroupFailure::timeout));
  }
}

BOOST_AUTO_TEST_CASE(worker_may_restart_before_group_is_complete) {
  Scene scene(3);
  scene.join(10, 0, "a");
  scene.join(11, 1, "b");
  scene.close(11);
  scene.join(21, 1, "bb");
  scene.join(12, 2, "c");
  BOOST_TEST(introductions(scene.only(21)) == "a bb c ");
}

BOOST_AUTO_TEST_CASE(deadline_of_lost_worker_is_dropped) {
  Scene scene(3);
  scene.join(10, 0, "a", 60'000);
  scene.join(11, 1, "hasty", 1);
  scene.close(11);
  scene.pass(10s);
  BOOST_TEST(!scene.server.failed());
  scene.pass(50s);
  BOOST_TEST(contains(scene.only(10).text, "after 60 s these workers have not joined: rank 1, rank 2"));
}

BOOST_AUTO_TEST_CASE(complete_group_defers_further_workers) {
  Scene scene(3);
  scene.join_all();
  scene.join(13, 1, "d");
  BOOST_TEST(scene.refusals.at(13).try_later);
  BOOST_TEST(scene.refusals.at(13).text == "there is a group of 3 workers already, whose rank 1 is 'b'");
  scene.contribute(10, 0, "p", "");
  BOOST_TEST(!scene.server.failed());
}

BOOST_AUTO_TEST_CASE(gathering_distributes_all_contributions) {
  Scene scene(3);
  scene.join_all();
  for (uint32_t round = 0; round < 3; ++round) {
    scene.sent.clear();
    scene.contribute(12, round, "phase", "C");
    scene.contribute(10, round, "phase", "A");
    BOOST_TEST(scene.sent.empty());
    scene.contribute(11, round, "phase", "B");
    for (const int session : {10, 11, 12}) {
      BOOST_TEST((scene.only(session).kind == Kind::gathered && scene.only(session).question == round));
      BOOST_TEST(scene.only(session).parts == (std::vector<std::string>{"A", "B", "C"}));
    }
  }
}

BOOST_AUTO_TEST_CASE(join_and_barrier_send_one_message_each) {
  constexpr int n = 200;
  Scene scene(n);
  const auto one_to_each = [&](Kind kind) {
    BOOST_TEST(scene.sent.size() == static_cast<std::size_t>(n));
    for (const auto& [session, messages] : scene.sent)
      if (messages.size() != 1 || messages[0].kind != kind) return false;
    return true;
  };
  for (int rank = 0; rank < n; ++rank) scene.join(10 + rank, rank, rank == 0 ? "a" : "w" + std::to_string(rank), 0, n);
  BOOST_TEST(one_to_each(Kind::welcome));
  for (uint32_t round = 0; round < 3; ++round) {  // like the phases of a shutdown
    scene.sent.clear();
    for (int rank = 0; rank < n; ++rank) scene.contribute(10 + rank, round, "phase", "");
    BOOST_TEST(one_to_each(Kind::gathered));
    BOOST_TEST(scene.sent[10].at(0).parts.empty());  // not n empty parts
  }
}

BOOST_AUTO_TEST_CASE(timeout_error_names_absent_workers) {
  const std::string text =
      "after 2 s these workers have not reached 'joined': worker 'a' (rank 0), worker 'c' (rank 2)";
  Scene scene(3);
  scene.join_all();
  scene.contribute(11, 2, "joined", "", 2000);
  scene.pass(2s);
  for (const int session : {10, 11, 12}) scene.expect_refused(session, text);  // the first gathering ends the group
  BOOST_TEST((scene.only(11).failure == GroupFailure::timeout));
  scene.contribute(10, 2, "joined", "");  // was in transit; the worker is not told twice
  BOOST_TEST(scene.sent[10].size() == 1);
  Scene later(3);
  later.meet();
  later.contribute(11, 2, "joined", "", 2000);
  later.pass(2s);
  later.expect_not_gathered(11, text, GroupFailure::timeout);
  BOOST_TEST(later.sent.size() == 1u);
  for (const int session : {10, 11, 12}) later.contribute(session, 3, "joined", "", 2000);
  BOOST_TEST(later.gathered(11));
}

BOOST_AUTO_TEST_CASE(gathering_without_timeout_waits_forever) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(11, 0, "leaving", "");
  BOOST_TEST((scene.server.deadline() == Clock::time_point::max()));
  scene.pass(24h);
  BOOST_TEST(scene.sent.empty());
}

BOOST_AUTO_TEST_CASE(lost_worker_fails_the_gathering) {
  const std::string text = "worker 'c' (rank 2) is gone while others are at 'leaving'";
  for (const std::string_view when : {"before", "between", "after its own"}) {
    Scene scene(3);
    scene.meet();
    if (when == "before") scene.close(12);
    if (when == "after its own") scene.contribute(12, 2, "leaving", "");
    scene.contribute(10, 2, "leaving", "");
    if (when != "before") scene.close(12);
    scene.expect_not_gathered(10, text);
    scene.contribute(11, 2, "leaving", "");
    scene.expect_not_gathered(11, text);
    BOOST_TEST(scene.news(10) == "2 lost 2;");
    BOOST_TEST((scene.sent[10].front().kind == Kind::changed));  // changes are sent first
  }
}

BOOST_AUTO_TEST_CASE(leaving_is_reported_differently_from_loss) {
  Scene scene(3);
  scene.meet();
  scene.deliver(12, {.kind = Kind::leave});
  scene.close(12);
  scene.contribute(10, 2, "barrier", "");
  scene.expect_not_gathered(10, "worker 'c' (rank 2) has left the group while others are at 'barrier'");
  BOOST_TEST(scene.news(11) == "2 left 2;");
}

BOOST_AUTO_TEST_CASE(failed_worker_does_not_stop_the_others) {
  Scene scene(3);
  scene.meet();
  scene.contribute(10, 2, "barrier", "");
  scene.deliver(12, {.kind = Kind::fail, .text = "no memory"});
  scene.expect_not_gathered(10, "worker 'c' (rank 2) failed: no memory");
  scene.barrier(10, {0, 1}, 2);
  scene.barrier(11, {0, 1}, 2);
  BOOST_TEST(scene.gathered(11));
}

BOOST_AUTO_TEST_CASE(failure_before_first_gathering_reaches_all) {
  Scene scene(3);
  scene.join_all();
  scene.deliver(11, {.kind = Kind::fail, .text = "no memory"});
  scene.expect_refused(10, "worker 'b' (rank 1) failed: no memory");
  scene.expect_refused(12, "worker 'b' (rank 1) failed: no memory");
  BOOST_TEST(scene.sent[11].empty());
  BOOST_TEST(scene.server.failure_sent_to_all());
}

BOOST_AUTO_TEST_CASE(late_workers_learn_of_failure_once) {
  Scene scene(3);
  scene.join(10, 0, "a", 5000);
  scene.pass(5s);
  BOOST_TEST(!scene.server.failure_sent_to_all());
  for (const WorkerId rank : {1, 2}) {
    scene.join(10 + rank, rank, "late");
    BOOST_TEST(contains(scene.refusals.at(10 + rank).text, "after 5 s these workers have not joined: rank 1, rank 2"));
    BOOST_TEST((scene.refusals.at(10 + rank).failure == GroupFailure::timeout));
  }
  BOOST_TEST(scene.server.failure_sent_to_all());
  scene.join(13, 1, "again");
  BOOST_TEST(scene.refusals.at(13).try_later);
}

BOOST_AUTO_TEST_CASE(server_awaits_every_live_member) {
  Scene scene(3);
  BOOST_TEST(!scene.server.awaits(2));
  scene.meet();
  BOOST_TEST(scene.server.awaits(1));
  BOOST_TEST(scene.server.awaits(2));
  scene.close(12);
  BOOST_TEST(scene.server.awaits(1));
  BOOST_TEST(!scene.server.awaits(2));
}

BOOST_AUTO_TEST_CASE(workers_in_different_phases_are_refused) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(10, 0, "barrier", "");
  scene.contribute(12, 0, "leaving", "");
  BOOST_TEST(
      contains(scene.only(11).text, "worker 'c' (rank 2) is at 'leaving' while worker 'a' (rank 0) is at 'barrier'"));
}

BOOST_AUTO_TEST_SUITE_END()
