// timeout: 120
#include "tendril/rpc/launch/rendezvous.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tendril/rpc/error.h"

BOOST_AUTO_TEST_SUITE(rendezvous)

using namespace tendril::rpc;
using namespace std::chrono_literals;

namespace {

using Kind = RendezvousKind;

/// A server, what it sent over each session, and a clock that stands still. Rank 0's session is 10; the numbers of
/// sessions are their incarnations.
struct Scene {
  explicit Scene(int world_size) : server(world_size, "a", 10) {}

  void deliver(int session, const RendezvousMessage& message) {
    server.received(ranks.at(session), static_cast<uint64_t>(session), message, now);
    collect();
  }
  /// A session that began earlier says something, or ends.
  void deliver_late(int session, WorkerId rank, const RendezvousMessage& message) {
    server.received(rank, static_cast<uint64_t>(session), message, now);
    collect();
  }
  void close_late(int session, WorkerId rank) {
    server.closed(rank, static_cast<uint64_t>(session), now);
    collect();
  }
  /// Asks, has a session if it may, and joins over it.
  void join(int session, WorkerId rank, const std::string& name, uint64_t timeout_ms = 0, int world_size = 0) {
    if (session != 10) {
      const WorkerInfo who{name, rank};
      if (const auto refusal = server.admit(who, world_size == 0 ? 3 : world_size, now)) {
        refusals[session] = *refusal;
        return collect();
      }
      server.connected(who, static_cast<uint64_t>(session), now);
    }
    ranks[session] = rank;
    RendezvousMessage message{.kind = Kind::join, .timeout_ms = timeout_ms};
    message.parts.push_back(name);
    deliver(session, message);
  }
  void contribute(int session, uint32_t question, const std::string& phase, const std::string& part,
                  uint64_t timeout_ms = 0) {
    contribute(session, {.kind = Kind::contribute,
                         .question = question,
                         .text = phase,
                         .timeout_ms = timeout_ms,
                         .epoch = server.roster().epoch(),
                         .parts = {part}});
  }
  void contribute(int session, const RendezvousMessage& message) { deliver(session, message); }
  /// A barrier of some, at an epoch.
  void barrier(int session, std::vector<WorkerId> of, uint64_t epoch, Attendance attendance = Attendance::named) {
    contribute(session, {.kind = Kind::contribute,
                         .question = 7,
                         .text = "barrier",
                         .epoch = epoch,
                         .attendance = attendance,
                         .ranks = std::move(of),
                         .parts = {""}});
  }
  void close(int session) {
    server.closed(ranks.at(session), static_cast<uint64_t>(session), now);
    ranks.erase(session);
    collect();
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    server.on_timer(now);
    collect();
  }
  void collect() {
    for (const auto& action : server.take_actions()) {
      for (const auto& [session, rank] : ranks)
        if (rank == action.to) sent[session].push_back(decode_rendezvous(action.bytes));
    }
  }
  void join_all() {
    join(10, 0, "a");
    join(11, 1, "b");
    join(12, 2, "c");
    sent.clear();
  }
  /// And have met: from here on what goes wrong at one does not end the group.
  void meet() {
    join_all();
    for (const int session : {10, 11, 12}) contribute(session, 1, "joined", "");
    sent.clear();
  }
  const RendezvousMessage& only(int session) {
    BOOST_REQUIRE(sent[session].size() == 1);
    return sent[session][0];
  }
  void expect_refused(int session, const std::string& text) {
    BOOST_TEST((only(session).kind == Kind::refused));
    BOOST_TEST(only(session).text == text);
  }

  void expect_not_gathered(int session, const std::string& text, GroupFailure failure = GroupFailure::lost) {
    BOOST_REQUIRE(!sent[session].empty());
    const RendezvousMessage& last = sent[session].back();
    BOOST_TEST((last.kind == Kind::not_gathered));
    BOOST_TEST(last.text == text);
    BOOST_TEST((last.failure == failure));
  }
  bool gathered(int session) { return !sent[session].empty() && sent[session].back().kind == Kind::gathered; }
  /// What the last news to that session is about: "rank state epoch", ...
  std::string news(int session) {
    std::string text;
    for (const RendezvousMessage& message : sent[session]) {
      if (message.kind != Kind::changed) continue;
      for (const MemberRecord& one : message.members)
        text += std::to_string(one.rank) +
                (one.state == MemberState::alive  ? " alive "
                 : one.state == MemberState::left ? " left "
                                                  : " lost ") +
                std::to_string(one.epoch) + ";";
    }
    return text;
  }

  RendezvousServer server;
  Clock::time_point now{};
  std::map<int, WorkerId> ranks;
  std::map<int, std::vector<RendezvousMessage>> sent;
  std::map<int, RendezvousServer::Refusal> refusals;
};

std::string introductions(const RendezvousMessage& welcome) {
  std::string text;
  for (const MemberRecord& member : welcome.members) text += member.introduction + " ";
  return text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_survives_its_bytes) {
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

BOOST_AUTO_TEST_CASE(bytes_that_are_no_message_are_refused) {
  Bytes bytes = encode({.kind = Kind::join, .text = "text"});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    BOOST_CHECK_THROW(decode_rendezvous(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))),
                      MessageError);
  bytes.push_back(std::byte{0});
  BOOST_CHECK_THROW(decode_rendezvous(bytes), MessageError);
}

BOOST_AUTO_TEST_CASE(nobody_is_welcome_before_all_have_joined) {
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

BOOST_AUTO_TEST_CASE(strangers_neither_keep_a_group_from_forming_nor_end_it) {
  Scene scene(3);
  int stranger = 100;
  const auto knock = [&] {
    scene.join(++stranger, 1, "x", 1, 7);
    scene.join(++stranger, -5, "x", 1);
    scene.join(++stranger, 0, "x", 1);
    scene.join(++stranger, 2, "no name", 1);
    for (int i = 101; i <= stranger; ++i) BOOST_TEST(scene.refusals.contains(i));
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
  for (const int session : {10, 12}) {
    scene.expect_refused(session, "after 1500 ms these workers have not joined: rank 1 (of world size 3)");
    BOOST_TEST((scene.only(session).failure == GroupFailure::timeout));
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_vanishes_before_the_group_is_complete_may_come_again) {
  Scene scene(3);
  scene.join(10, 0, "a");
  scene.join(11, 1, "b");
  scene.close(11);
  scene.join(21, 1, "bb");
  scene.join(12, 2, "c");
  BOOST_TEST(introductions(scene.only(21)) == "a bb c ");
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
  BOOST_TEST(scene.refusals.at(13).try_later);
  BOOST_TEST(scene.refusals.at(13).text == "there is a group of 3 workers already, whose rank 1 is 'b'");
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
    for (const int session : {10, 11, 12}) {
      BOOST_TEST((scene.only(session).kind == Kind::gathered && scene.only(session).question == round));
      BOOST_TEST(scene.only(session).parts == (std::vector<std::string>{"A", "B", "C"}));
    }
  }
}

BOOST_AUTO_TEST_CASE(workers_that_miss_a_gathering_are_named) {
  const std::string text =
      "after 2 s these workers have not reached 'joined': worker 'a' (rank 0), worker 'c' (rank 2)";
  Scene scene(3);
  scene.join_all();
  scene.contribute(11, 2, "joined", "", 2000);
  scene.pass(2s);
  for (const int session : {10, 11, 12}) scene.expect_refused(session, text);  // the first: it ends the group
  BOOST_TEST((scene.only(11).failure == GroupFailure::timeout));
  scene.contribute(10, 2, "joined", "");  // it was on its way; it is not told twice
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

BOOST_AUTO_TEST_CASE(without_a_timeout_a_gathering_waits_for_ever) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(11, 0, "leaving", "");
  BOOST_TEST((scene.server.deadline() == Clock::time_point::max()));
  scene.pass(24h);
  BOOST_TEST(scene.sent.empty());
}

BOOST_AUTO_TEST_CASE(a_worker_lost_fails_the_gathering_whenever_it_was_lost) {
  const std::string text = "worker 'c' (rank 2) is gone while others are at 'leaving'";
  for (const std::string when : {"before", "between", "after its own"}) {
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
    BOOST_TEST((scene.sent[10].front().kind == Kind::changed));  // first: it is asked what has changed
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_left_is_told_apart_from_one_that_was_lost) {
  Scene scene(3);
  scene.meet();
  scene.deliver(12, {.kind = Kind::leave});
  scene.close(12);
  scene.contribute(10, 2, "barrier", "");
  scene.expect_not_gathered(10, "worker 'c' (rank 2) has left the group while others are at 'barrier'");
  BOOST_TEST(scene.news(11) == "2 left 2;");
}

BOOST_AUTO_TEST_CASE(a_worker_that_cannot_go_on_says_why_and_the_others_do) {
  Scene scene(3);
  scene.meet();
  scene.contribute(10, 2, "barrier", "");
  scene.deliver(12, {.kind = Kind::fail, .text = "no memory"});
  scene.expect_not_gathered(10, "worker 'c' (rank 2) failed: no memory");
  scene.barrier(10, {0, 1}, 2);
  scene.barrier(11, {0, 1}, 2);
  BOOST_TEST(scene.gathered(11));
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

BOOST_AUTO_TEST_CASE(who_comes_after_a_failure_is_told_of_it_once) {
  Scene scene(3);
  scene.join(10, 0, "a", 5000);
  scene.pass(5s);
  BOOST_TEST(!scene.server.all_told());
  for (const WorkerId rank : {1, 2}) {
    scene.join(10 + rank, rank, "late");
    BOOST_TEST(contains(scene.refusals.at(10 + rank).text, "after 5 s these workers have not joined: rank 1, rank 2"));
    BOOST_TEST((scene.refusals.at(10 + rank).failure == GroupFailure::timeout));
  }
  BOOST_TEST(scene.server.all_told());
  scene.join(13, 1, "again");
  BOOST_TEST(scene.refusals.at(13).try_later);
}

BOOST_AUTO_TEST_CASE(who_is_waited_for_is_known) {
  Scene scene(3);
  scene.join_all();
  BOOST_TEST(!scene.server.awaits(2, scene.now));
  scene.contribute(11, 0, "barrier", "");
  BOOST_TEST(scene.server.awaits(2, scene.now));
  BOOST_TEST(!scene.server.awaits(1, scene.now));
}

BOOST_AUTO_TEST_CASE(workers_at_different_places_are_told) {
  Scene scene(3);
  scene.join_all();
  scene.contribute(10, 0, "barrier", "");
  scene.contribute(12, 0, "leaving", "");
  BOOST_TEST(
      contains(scene.only(11).text, "worker 'c' (rank 2) is at 'leaving' while worker 'a' (rank 0) is at 'barrier'"));
}

// ---- Members come and go

BOOST_AUTO_TEST_CASE(a_worker_that_was_lost_joins_again_and_the_next_barrier_is_of_all) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.pass(1s);
  scene.sent.clear();
  scene.join(22, 2, "c");
  BOOST_TEST((scene.only(22).kind == Kind::welcome));
  BOOST_TEST(scene.only(22).epoch == 3u);
  BOOST_TEST(scene.only(22).members.at(2).incarnation == 22u);
  for (const int session : {10, 11}) {
    BOOST_TEST(scene.news(session) == "2 alive 3;");
    BOOST_TEST(scene.only(session).members.at(0).introduction == "c");
  }
  for (const int session : {10, 11, 22}) scene.barrier(session, {}, 3);
  for (const int session : {10, 11, 22}) BOOST_TEST(scene.gathered(session));
}

BOOST_AUTO_TEST_CASE(what_a_member_that_joins_again_is_told_holds_all_that_happened_before) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.deliver(11, {.kind = Kind::leave});  // not told yet: it waits for company
  scene.join(22, 2, "c");
  const RendezvousMessage& welcome = scene.only(22);
  BOOST_TEST((welcome.members.at(1).state == MemberState::left && welcome.members.at(1).name == "b"));
  BOOST_TEST(welcome.members.at(1).introduction == "");
  BOOST_TEST(scene.news(10) == "2 lost 2;1 left 3;2 alive 4;");
  scene.pass(1s);
  BOOST_TEST(scene.sent[22].size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_member_that_lives_keeps_its_rank_and_is_asked_whether_it_does) {
  Scene scene(3);
  scene.meet();
  scene.join(22, 2, "c");
  BOOST_TEST(
      scene.refusals.at(22).text ==
      "there is a group of 3 workers already, whose rank 2 is 'c' and is alive; it can be started anew when that "
      "one has ended");
  BOOST_TEST(scene.refusals.at(22).try_later);
  BOOST_TEST(scene.server.awaits(2, scene.now));
  BOOST_TEST(!scene.server.awaits(2, scene.now + 61s));
  scene.close(12);
  scene.join(22, 2, "c");
  BOOST_TEST(scene.server.roster().at(2).incarnation == 22u);
}

BOOST_AUTO_TEST_CASE(of_two_that_would_join_again_the_first_does) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  const WorkerInfo who{"c", 2};
  BOOST_TEST(!scene.server.admit(who, 3, scene.now));  // both have asked
  scene.server.connected(who, 22, scene.now);          // one has a session, and says nothing yet
  scene.ranks[22] = 2;
  scene.join(23, 2, "c");
  BOOST_TEST(scene.refusals.at(23).try_later);
  scene.close(22);  // it dies before it has joined: nobody needs to know
  BOOST_TEST(scene.server.roster().epoch() == 2u);
  scene.join(23, 2, "c");
  BOOST_TEST(scene.server.roster().at(2).incarnation == 23u);
}

BOOST_AUTO_TEST_CASE(what_an_earlier_incarnation_says_late_counts_for_nothing) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.join(22, 2, "c");
  scene.sent.clear();
  scene.deliver_late(12, 2, {.kind = Kind::leave});
  scene.deliver_late(12, 2, {.kind = Kind::fail, .text = "old"});
  scene.deliver_late(12, 2, {.kind = Kind::contribute, .text = "barrier", .epoch = 3, .parts = {""}});
  scene.close_late(12, 2);
  scene.close_late(12, 2);
  BOOST_TEST((scene.server.roster().alive(2) && scene.server.roster().epoch() == 3));
  scene.barrier(10, {}, 3);
  scene.barrier(11, {}, 3);
  BOOST_TEST(!scene.gathered(10));
  scene.barrier(22, {}, 3);
  BOOST_TEST(scene.gathered(10));
}

BOOST_AUTO_TEST_CASE(a_session_of_the_next_incarnation_ends_the_one_before) {
  Scene scene(3);  // its end is heard of after the next one's beginning
  scene.meet();
  scene.server.connected({"c", 2}, 22, scene.now);
  scene.ranks.erase(12);
  scene.ranks[22] = 2;
  BOOST_TEST(!scene.server.roster().alive(2));
  scene.close_late(12, 2);
  scene.deliver(22, {.kind = Kind::join, .parts = {"c"}});
  BOOST_TEST((scene.server.roster().alive(2) && scene.server.roster().epoch() == 3));
}

BOOST_AUTO_TEST_CASE(a_worker_that_joins_again_while_others_wait_does_not_get_into_their_barrier) {
  Scene scene(3);
  scene.meet();
  scene.barrier(10, {}, 1);
  scene.close(12);
  scene.expect_not_gathered(10, "worker 'c' (rank 2) is gone while others are at 'barrier'");
  scene.join(22, 2, "c");
  scene.barrier(22, {}, 3);
  scene.barrier(11, {}, 1);  // it was called before its worker had heard
  scene.expect_not_gathered(11, "worker 'c' (rank 2) has been started anew (epoch 3) while others are at 'barrier'");
  BOOST_TEST(scene.sent[22].size() == 1u);  // it goes on waiting
  scene.barrier(10, {}, 3);
  scene.barrier(11, {}, 3);
  BOOST_TEST(scene.gathered(22));
}

BOOST_AUTO_TEST_CASE(only_the_same_name_takes_a_rank_again_and_rank_0_nobody) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.join(21, 2, "d");
  scene.join(22, 0, "a");
  scene.join(23, 2, "c", 0, 4);
  for (const int session : {21, 22, 23}) BOOST_TEST(scene.refusals.at(session).try_later);
  BOOST_TEST(!scene.server.roster().alive(2));
}

BOOST_AUTO_TEST_CASE(nobody_joins_again_before_all_have_met_or_during_a_shutdown) {
  Scene starting(3);
  starting.join_all();
  starting.close(12);
  for (const int session : {10, 11})
    starting.expect_refused(session, "worker 'c' (rank 2) is gone while others are at 'joined'");
  starting.join(22, 2, "c");
  BOOST_TEST(starting.refusals.at(22).try_later);

  Scene ending(3);
  ending.meet();
  ending.close(12);
  const RendezvousMessage shutdown{
      .kind = Kind::contribute, .text = "shutdown", .epoch = 2, .attendance = Attendance::alive, .parts = {""}};
  const WorkerInfo who{"c", 2};
  BOOST_TEST(!ending.server.admit(who, 3, ending.now));
  ending.server.connected(who, 22, ending.now);  // it was admitted, and is too late
  ending.ranks[22] = 2;
  for (const int session : {10, 11}) ending.contribute(session, shutdown);
  BOOST_TEST(ending.gathered(11));
  BOOST_TEST(ending.sent[11].back().parts.empty());
  ending.deliver(22, {.kind = Kind::join, .parts = {"c"}});
  ending.expect_refused(22, "the group that it was to join again is shutting down");
  ending.close(22);
  ending.join(23, 2, "c");
  BOOST_TEST(ending.refusals.at(23).text ==
             "there is a group of 3 workers already, whose rank 2 is 'c' and which is shutting down");
}

BOOST_AUTO_TEST_CASE(who_dies_while_others_wait_in_a_shutdown_may_come_back_to_it) {
  Scene scene(3);
  scene.meet();
  scene.contribute(12, 2, "shutdown", "");
  scene.contribute(11, 2, "shutdown", "");
  scene.close(12);  // rank 0 still works
  BOOST_TEST(scene.news(11) == "2 lost 2;");
  BOOST_TEST(scene.sent[11].size() == 1u);
  scene.join(22, 2, "c");
  scene.contribute(10, 2, "shutdown", "");
  BOOST_TEST(!scene.gathered(11));
  scene.contribute(22, 2, "shutdown", "");
  for (const int session : {10, 11, 22}) BOOST_TEST(scene.gathered(session));
  scene.close(22);  // later phases are of incarnations, as everything else is
  scene.join(32, 2, "c");
  BOOST_TEST(contains(scene.refusals.at(32).text, "and which is shutting down"));
  scene.contribute(10, 3, "calls finished", "");
  scene.expect_not_gathered(10, "worker 'c' (rank 2) is gone while others are at 'calls finished'");
}

BOOST_AUTO_TEST_CASE(a_shutdown_fails_when_all_who_live_are_in_it_and_one_is_gone) {
  for (const bool before : {true, false}) {
    Scene scene(3);
    scene.meet();
    if (before) scene.close(12);
    scene.contribute(11, 2, "shutdown", "");
    scene.contribute(10, 2, "shutdown", "");
    if (!before) scene.close(12);
    for (const int session : {10, 11})
      scene.expect_not_gathered(session, "worker 'c' (rank 2) is gone while others are at 'shutdown'");
    scene.join(22, 2, "c");
    BOOST_TEST(contains(scene.refusals.at(22).text, "and which is shutting down"));
  }
}

BOOST_AUTO_TEST_CASE(barriers_of_different_workers_do_not_disturb_each_other) {
  Scene scene(3);
  scene.meet();
  scene.barrier(10, {0, 1}, 1);
  scene.barrier(12, {0, 2}, 1);
  scene.barrier(10, {0, 2}, 1);
  BOOST_TEST(scene.gathered(12));
  BOOST_TEST(!scene.gathered(11));
  scene.close(12);  // nobody of that barrier
  scene.barrier(11, {0, 1}, 1);
  BOOST_TEST(scene.gathered(11));
  scene.barrier(11, {1}, 1);
  BOOST_TEST(scene.sent[11].size() == 3u);
}

BOOST_AUTO_TEST_CASE(contributions_of_some_come_by_rank) {
  Scene scene(3);
  scene.meet();
  RendezvousMessage message{
      .kind = Kind::contribute, .question = 9, .text = "all_gather", .epoch = 1, .ranks = {1, 2}, .parts = {"C"}};
  scene.contribute(12, message);
  message.parts = {"B"};
  scene.contribute(11, message);
  for (const int session : {11, 12}) BOOST_TEST(scene.only(session).parts == (std::vector<std::string>{"B", "C"}));
  BOOST_TEST(scene.only(11).question == 9u);
}

BOOST_AUTO_TEST_CASE(a_gathering_of_workers_that_are_none_is_refused_to_whoever_asks) {
  const std::string text = "worker 'b' (rank 1) asks for a gathering of workers that are none, or without itself";
  for (const std::vector<WorkerId>& ranks :
       {std::vector<WorkerId>{0, 2}, {1, 3}, {-1, 1}, {2, 1}, {1, 1}, {1, 2147483647}}) {
    Scene scene(3);
    scene.meet();
    scene.barrier(11, ranks, 1);
    scene.expect_not_gathered(11, text, GroupFailure::usage);
    BOOST_TEST(scene.sent.size() == 1u);
  }
  Scene scene(3);
  scene.meet();
  for (const std::vector<std::string>& parts :
       {std::vector<std::string>{}, {"a", "b"}, {std::string(kMaxContributionBytes + 1, 'x')}}) {
    scene.contribute(11, {.kind = Kind::contribute, .text = "p", .epoch = 1, .parts = parts});
    scene.expect_not_gathered(11, "worker 'b' (rank 1) is out of step with its group", GroupFailure::usage);
  }
  scene.contribute(11, {.kind = Kind::contribute, .attendance = static_cast<Attendance>(3), .parts = {""}});
  scene.expect_not_gathered(11, "worker 'b' (rank 1) is out of step with its group", GroupFailure::usage);
  scene.deliver(11, {.kind = Kind::welcome});  // that ends it, and nobody else
  BOOST_TEST((scene.sent[11].back().kind == Kind::refused));
  BOOST_TEST((scene.sent.size() == 1u && !scene.server.failed()));
}

BOOST_AUTO_TEST_CASE(survivors_meet_at_one_epoch_only) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.barrier(10, {0, 1}, 2, Attendance::unchanged);
  scene.barrier(11, {0, 1}, 1, Attendance::unchanged);  // it has not heard yet
  scene.expect_not_gathered(11, "the group is at epoch 2, and this 'barrier' is of epoch 1");
  scene.join(22, 2, "c");
  scene.expect_not_gathered(10, "worker 'c' (rank 2) has been started anew (epoch 3) while others are at 'barrier'");
  for (const int session : {10, 11, 22}) scene.barrier(session, {}, 3, Attendance::unchanged);
  BOOST_TEST(scene.gathered(10));
}

BOOST_AUTO_TEST_CASE(a_shutdown_that_accepts_losses_goes_on_without_those_that_die_in_it) {
  Scene scene(3);
  scene.meet();
  const auto contribute = [&](int session, const std::string& part) {
    scene.contribute(session, {.kind = Kind::contribute,
                               .text = "references released",
                               .epoch = 1,
                               .attendance = Attendance::alive,
                               .parts = {part}});
  };
  contribute(10, "A");
  contribute(11, "B");
  scene.close(11);
  BOOST_TEST(!scene.gathered(10));
  contribute(12, "C");
  BOOST_TEST(scene.sent[10].back().parts == (std::vector<std::string>{"A", "", "C"}));
  scene.sent.clear();
  scene.deliver(12, {.kind = Kind::leave});  // that was the last phase: nobody is told of who leaves
  scene.close(12);
  scene.pass(1s);
  BOOST_TEST(scene.sent.empty());
}

BOOST_AUTO_TEST_CASE(one_that_accepts_losses_and_one_that_does_not_are_at_different_places) {
  Scene scene(3);
  scene.meet();
  scene.contribute(10, 2, "shutdown", "");
  scene.contribute(
      11, {.kind = Kind::contribute, .text = "shutdown", .epoch = 1, .attendance = Attendance::alive, .parts = {""}});
  BOOST_TEST(
      contains(scene.only(10).text,
               "worker 'b' (rank 1) is at 'shutdown' while worker 'a' (rank 0) is at 'shutdown' in another way"));
}

BOOST_AUTO_TEST_CASE(many_that_leave_at_once_cost_few_messages) {
  constexpr int n = 100;
  Scene scene(n);
  for (int rank = 0; rank < n; ++rank) scene.join(10 + rank, rank, rank == 0 ? "a" : "w" + std::to_string(rank), 0, n);
  for (int rank = 0; rank < n; ++rank) scene.contribute(10 + rank, 1, "joined", "");
  scene.sent.clear();
  for (int rank = 1; rank < n - 1; ++rank) {
    scene.deliver(10 + rank, {.kind = Kind::leave});
    scene.close(10 + rank);
  }
  BOOST_TEST((scene.server.deadline() == scene.now + 20ms));
  scene.pass(20ms);
  BOOST_TEST(scene.sent[10].size() == 2u);
  BOOST_TEST(scene.sent[10 + n - 1].back().members.size() == static_cast<std::size_t>(n - 3));
  std::size_t messages = 0;
  for (const auto& [session, all] : scene.sent) messages += all.size();
  BOOST_TEST(messages <= static_cast<std::size_t>(n + 2));
}

BOOST_AUTO_TEST_SUITE_END()
