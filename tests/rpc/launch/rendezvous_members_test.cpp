// Members of a group that come and go, as rank 0 sees them.
#include "tendril/rpc/launch/gathering.h"
#include "tests/rpc/launch/rendezvous_scene.h"

BOOST_AUTO_TEST_SUITE(rendezvous_members)

using namespace tendril::testing;
using namespace std::chrono_literals;

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

BOOST_AUTO_TEST_CASE(a_member_that_lives_keeps_its_rank) {
  Scene scene(3);
  scene.meet();
  scene.join(22, 2, "c");
  BOOST_TEST(
      scene.refusals.at(22).text ==
      "there is a group of 3 workers already, whose rank 2 is 'c' and is alive; it can be started anew when that "
      "one has ended");
  BOOST_TEST(scene.refusals.at(22).try_later);
  BOOST_TEST(scene.server.awaits(2));
  scene.close(12);
  scene.join(22, 2, "c");
  BOOST_TEST(scene.server.roster().at(2).incarnation == 22u);
}

BOOST_AUTO_TEST_CASE(of_two_that_would_join_again_the_first_does) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  const WorkerInfo who{"c", 2};
  BOOST_TEST(!scene.server.admit(who, 3));     // both have asked
  scene.server.connected(who, 22, scene.now);  // one has a session, and says nothing yet
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
  BOOST_TEST(!ending.server.admit(who, 3));
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

BOOST_AUTO_TEST_CASE(shutdown_of_a_thousand_workers_takes_few_bytes) {
  constexpr int kWorkers = 1000;
  RendezvousServer server(kWorkers, "w0", 1);
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  const auto say = [&](WorkerId rank, const RendezvousMessage& message) {
    server.received(rank, static_cast<uint64_t>(rank) + 1, message, now);
  };
  // The contribution is that of a worker with few connections (drain_test).
  const auto meet = [&](const std::string& phase, const std::string& contribution) {
    for (WorkerId rank = 0; rank < kWorkers; ++rank)
      say(rank, {.kind = Kind::contribute, .question = 1, .text = phase, .epoch = 1, .parts = {contribution}});
    std::size_t answers = 0, bytes = 0;
    for (const auto& action : server.take_actions()) ++answers, bytes += action.bytes.size();
    BOOST_TEST(answers == static_cast<std::size_t>(kWorkers));
    return bytes;
  };
  for (WorkerId rank = kWorkers - 1; rank >= 0; --rank) {
    const WorkerInfo who{"w" + std::to_string(rank), rank};
    if (rank > 0) {
      BOOST_REQUIRE(!server.admit(who, kWorkers));
      server.connected(who, static_cast<uint64_t>(rank) + 1, now);
    }
    say(rank, {.kind = Kind::join, .parts = {who.name}});
  }
  BOOST_TEST(server.take_actions().size() == static_cast<std::size_t>(kWorkers));
  meet(tendril::rpc::phases::kJoined, "");
  BOOST_TEST(meet(tendril::rpc::phases::kShutdown, "") < std::size_t{256} << 10);
  BOOST_TEST(meet(tendril::rpc::phases::kCallsFinished, "1000 1000 + 0 999") < std::size_t{32} << 20);
}

BOOST_AUTO_TEST_SUITE_END()
