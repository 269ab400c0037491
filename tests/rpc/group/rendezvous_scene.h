#pragma once
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group/rendezvous.h"
#include "tests/contains.h"

namespace tendril::testing {

using namespace tendril::rpc;
using tendril::test::contains;

using Kind = RendezvousKind;

/// A server, the messages that it has sent over each session, and a clock that only `pass` advances. Rank 0's session
/// is 10. The number of a session is the incarnation of its worker.
struct Scene {
  explicit Scene(int world_size) : server(world_size, "a", 10) {}

  void deliver(int session, const RendezvousMessage& message) {
    server.received(ranks.at(session), static_cast<uint64_t>(session), message, now);
    collect();
  }
  /// A message, or the end, of a session that began earlier.
  void deliver_late(int session, WorkerId rank, const RendezvousMessage& message) {
    server.received(rank, static_cast<uint64_t>(session), message, now);
    collect();
  }
  void close_late(int session, WorkerId rank) {
    server.closed(rank, static_cast<uint64_t>(session), now);
    collect();
  }
  /// Asks to join and, if admitted, begins a session and joins over it.
  void join(int session, WorkerId rank, const std::string& name, uint64_t timeout_ms = 0, int world_size = 0) {
    if (session != 10) {
      const WorkerInfo who{name, rank};
      if (const auto refusal = server.admit(who, world_size == 0 ? 3 : world_size)) {
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
  /// Contributes to a barrier of some ranks at an epoch.
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
  /// Lets all workers join and meet. After that, a failure at one worker does not end the group.
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
  /// Returns the changes sent over that session: "rank state epoch;" for each.
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

inline std::string introductions(const RendezvousMessage& welcome) {
  std::string text;
  for (const MemberRecord& member : welcome.members) text += member.introduction + " ";
  return text;
}

}  // namespace tendril::testing
