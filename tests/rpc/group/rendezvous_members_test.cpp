// Members that leave and rejoin a group, as rank 0 sees them.
#include "tendril/rpc/group/gathering.h"
#include "tests/rpc/group/rendezvous_scene.h"

BOOST_AUTO_TEST_SUITE(rendezvous_members)

using namespace tendril::testing;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(next_barrier_includes_rejoined_worker) {
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

BOOST_AUTO_TEST_CASE(rejoining_member_learns_all_changes) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.deliver(11, {.kind = Kind::leave});  // not sent yet: changes are sent together
  scene.join(22, 2, "c");
  const RendezvousMessage& welcome = scene.only(22);
  BOOST_TEST((welcome.members.at(1).state == MemberState::left && welcome.members.at(1).name == "b"));
  BOOST_TEST(welcome.members.at(1).introduction == "");
  BOOST_TEST(scene.news(10) == "2 lost 2;1 left 3;2 alive 4;");
  scene.pass(1s);
  BOOST_TEST(scene.sent[22].size() == 1u);
}

BOOST_AUTO_TEST_CASE(live_member_keeps_its_rank) {
  Scene scene(3);
  scene.meet();
  scene.join(22, 2, "c");
  BOOST_TEST(
      scene.refusals.at(22).text ==
      "there is a group of 3 workers already, whose rank 2 is 'c' and is alive; a restarted worker can join once "
      "that one has ended");
  BOOST_TEST(scene.refusals.at(22).try_later);
  BOOST_TEST(scene.server.awaits(2));
  scene.close(12);
  scene.join(22, 2, "c");
  BOOST_TEST(scene.server.roster().at(2).incarnation == 22u);
}

BOOST_AUTO_TEST_CASE(first_of_two_replacements_joins) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  const WorkerInfo who{"c", 2};
  BOOST_TEST(!scene.server.admit(who, 3));     // the first of the two is admitted
  scene.server.connected(who, 22, scene.now);  // one has a session, but has not joined yet
  scene.ranks[22] = 2;
  scene.join(23, 2, "c");
  BOOST_TEST(scene.refusals.at(23).try_later);
  scene.close(22);  // it dies before it has joined: no change is sent
  BOOST_TEST(scene.server.roster().epoch() == 2u);
  scene.join(23, 2, "c");
  BOOST_TEST(scene.server.roster().at(2).incarnation == 23u);
}

BOOST_AUTO_TEST_CASE(late_messages_of_old_incarnation_are_ignored) {
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

BOOST_AUTO_TEST_CASE(new_session_ends_the_old_incarnation) {
  Scene scene(3);  // the end of the old session is reported after the new one has begun
  scene.meet();
  scene.server.connected({"c", 2}, 22, scene.now);
  scene.ranks.erase(12);
  scene.ranks[22] = 2;
  BOOST_TEST(!scene.server.roster().alive(2));
  scene.close_late(12, 2);
  scene.deliver(22, {.kind = Kind::join, .parts = {"c"}});
  BOOST_TEST((scene.server.roster().alive(2) && scene.server.roster().epoch() == 3));
}

BOOST_AUTO_TEST_CASE(rejoined_worker_cannot_enter_older_barrier) {
  Scene scene(3);
  scene.meet();
  scene.barrier(10, {}, 1);
  scene.close(12);
  scene.expect_not_gathered(10, "worker 'c' (rank 2) is gone while others are at 'barrier'");
  scene.join(22, 2, "c");
  scene.barrier(22, {}, 3);
  scene.barrier(11, {}, 1);  // called before the worker knew of the change
  scene.expect_not_gathered(11, "worker 'c' (rank 2) has been restarted (epoch 3) while others are at 'barrier'");
  BOOST_TEST(scene.sent[22].size() == 1u);  // it keeps waiting
  scene.barrier(10, {}, 3);
  scene.barrier(11, {}, 3);
  BOOST_TEST(scene.gathered(22));
}

BOOST_AUTO_TEST_CASE(only_same_name_can_retake_a_rank) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.join(21, 2, "d");
  scene.join(22, 0, "a");
  scene.join(23, 2, "c", 0, 4);
  for (const int session : {21, 22, 23}) BOOST_TEST(scene.refusals.at(session).try_later);
  BOOST_TEST(!scene.server.roster().alive(2));
}

BOOST_AUTO_TEST_CASE(rejoining_requires_a_running_group) {
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
  ending.server.connected(who, 22, ending.now);  // admitted, but too late
  ending.ranks[22] = 2;
  for (const int session : {10, 11}) ending.contribute(session, shutdown);
  BOOST_TEST(ending.gathered(11));
  BOOST_TEST(ending.sent[11].back().parts.empty());
  ending.deliver(22, {.kind = Kind::join, .parts = {"c"}});
  ending.expect_refused(22, "the group is shutting down and accepts no workers");
  ending.close(22);
  ending.join(23, 2, "c");
  BOOST_TEST(ending.refusals.at(23).text ==
             "there is a group of 3 workers already, whose rank 2 is 'c' and which is shutting down");
}

BOOST_AUTO_TEST_CASE(worker_may_rejoin_a_waiting_shutdown) {
  Scene scene(3);
  scene.meet();
  scene.contribute(12, 2, "shutdown", "");
  scene.contribute(11, 2, "shutdown", "");
  scene.close(12);  // rank 0 is not in the shutdown yet
  BOOST_TEST(scene.news(11) == "2 lost 2;");
  BOOST_TEST(scene.sent[11].size() == 1u);
  scene.join(22, 2, "c");
  scene.contribute(10, 2, "shutdown", "");
  BOOST_TEST(!scene.gathered(11));
  scene.contribute(22, 2, "shutdown", "");
  for (const int session : {10, 11, 22}) BOOST_TEST(scene.gathered(session));
  scene.close(22);  // later phases belong to incarnations, like all other gatherings
  scene.join(32, 2, "c");
  BOOST_TEST(contains(scene.refusals.at(32).text, "and which is shutting down"));
  scene.contribute(10, 3, "calls finished", "");
  scene.expect_not_gathered(10, "worker 'c' (rank 2) is gone while others are at 'calls finished'");
}

BOOST_AUTO_TEST_CASE(shutdown_fails_once_all_survivors_wait) {
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

BOOST_AUTO_TEST_CASE(barriers_of_different_sets_are_independent) {
  Scene scene(3);
  scene.meet();
  scene.barrier(10, {0, 1}, 1);
  scene.barrier(12, {0, 2}, 1);
  scene.barrier(10, {0, 2}, 1);
  BOOST_TEST(scene.gathered(12));
  BOOST_TEST(!scene.gathered(11));
  scene.close(12);  // not a worker of that barrier
  scene.barrier(11, {0, 1}, 1);
  BOOST_TEST(scene.gathered(11));
  scene.barrier(11, {1}, 1);
  BOOST_TEST(scene.sent[11].size() == 3u);
}

BOOST_AUTO_TEST_CASE(contributions_of_subset_are_in_rank_order) {
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

BOOST_AUTO_TEST_CASE(invalid_contributions_fail_only_their_sender) {
  const std::string text = "worker 'b' (rank 1) asked for a gathering with invalid ranks or without itself";
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
    scene.expect_not_gathered(11, "worker 'b' (rank 1) sent a malformed contribution", GroupFailure::usage);
  }
  scene.contribute(11, {.kind = Kind::contribute, .attendance = static_cast<Attendance>(3), .parts = {""}});
  scene.expect_not_gathered(11, "worker 'b' (rank 1) sent a malformed contribution", GroupFailure::usage);
  scene.deliver(11, {.kind = Kind::welcome});  // affects only this worker
  BOOST_TEST((scene.sent[11].back().kind == Kind::refused));
  BOOST_TEST((scene.sent.size() == 1u && !scene.server.failed()));
}

BOOST_AUTO_TEST_CASE(survivors_meet_at_one_epoch_only) {
  Scene scene(3);
  scene.meet();
  scene.close(12);
  scene.barrier(10, {0, 1}, 2, Attendance::unchanged);
  scene.barrier(11, {0, 1}, 1, Attendance::unchanged);  // it does not know of the change yet
  scene.expect_not_gathered(11, "the group is at epoch 2, and this 'barrier' is of epoch 1");
  scene.join(22, 2, "c");
  scene.expect_not_gathered(10, "worker 'c' (rank 2) has been restarted (epoch 3) while others are at 'barrier'");
  for (const int session : {10, 11, 22}) scene.barrier(session, {}, 3, Attendance::unchanged);
  BOOST_TEST(scene.gathered(10));
}

BOOST_AUTO_TEST_CASE(shutdown_accepting_losses_skips_lost_workers) {
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
  scene.deliver(12, {.kind = Kind::leave});  // after the last phase, no changes are sent
  scene.close(12);
  scene.pass(1s);
  BOOST_TEST(scene.sent.empty());
}

BOOST_AUTO_TEST_CASE(workers_must_agree_on_accepting_losses) {
  Scene scene(3);
  scene.meet();
  scene.contribute(10, 2, "shutdown", "");
  scene.contribute(
      11, {.kind = Kind::contribute, .text = "shutdown", .epoch = 1, .attendance = Attendance::alive, .parts = {""}});
  BOOST_TEST(contains(
      scene.only(10).text,
      "worker 'b' (rank 1) is at 'shutdown' while worker 'a' (rank 0) is at 'shutdown' with different arguments"));
}

BOOST_AUTO_TEST_CASE(simultaneous_departures_send_few_messages) {
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

BOOST_AUTO_TEST_CASE(shutdown_of_many_workers_sends_few_bytes) {
  constexpr int kWorkers = 1000;
  RendezvousServer server(kWorkers, "w0", 1);
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  const auto say = [&](WorkerId rank, const RendezvousMessage& message) {
    server.received(rank, static_cast<uint64_t>(rank) + 1, message, now);
  };
  // The contribution of a worker with few connections (drain_test).
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
