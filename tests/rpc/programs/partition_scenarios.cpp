// Workers that cannot reach each other, or give no sign of life: partition_scenarios NAME, one worker of a group.
// The partitions are those of hosts.sh: w1 is on the host that is cut off.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/rref.h"
#include "tests/rpc/scenario.h"
#include "tests/rpc/soak/cut.h"
#include "tests/wait_until.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;

namespace partition_scenarios {

using namespace scenario;

std::array<std::atomic<int>, 4> calls_from;
int count(int from) { return ++calls_from[static_cast<std::size_t>(from)]; }
int counted(int from) { return calls_from[static_cast<std::size_t>(from)]; }

/// Joins with `silence` as liveness timeout and grace period, calls every worker once, runs `before`, and has w1 cut
/// off. Returns this worker's rank.
int join_and_cut(
    const std::string& name, std::chrono::milliseconds silence, const std::function<void(int)>& before = [](int) {}) {
  const rpc::AgentOptions agent{.ping_interval = 200ms, .liveness_timeout = silence, .grace_period = silence};
  rpc::init_rpc(name, {.init_timeout = 60s, .agent = agent});
  const int self = rpc::get_worker_info().id;
  for (int other = 0; other < 4; ++other) rpc::rpc_sync<&count>(other, self);
  before(self);
  rpc::barrier(60s);
  give_sign("met." + std::to_string(self));
  if (self == 0) {  // only when all have passed the barrier
    for (int other = 0; other < 4; ++other) await_sign("met." + std::to_string(other));
    give_sign("cut");
  }
  await_sign("is_cut");
  return self;
}

/// Sets the log level to `info`, forwards this process's standard error, and calls `noted` at each line that contains
/// `text`, on a separate thread.
void watch_log(const std::string& text, const std::function<void()>& noted) {
  ::setenv("TENDRIL_LOG", "info", 1);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
  const int output = ::fcntl(2, F_DUPFD_CLOEXEC, 3);
  ::dup2(ends[1], 2);
  std::thread([=] {
    std::string said;
    for (char byte = 0; ::read(ends[0], &byte, 1) == 1;) {
      if (::write(output, &byte, 1) < 0) return;
      said += byte;
      if (byte != '\n') continue;
      if (said.find(text) != std::string::npos) noted();
      said.clear();
    }
  }).detach();
}

/// w1 is cut off while all wait for w3, which does not come until the others' init_rpc has failed.
void joining_partition(const std::string& name) {
  // A connection counts once both sides have it: the last message of the handshake may still be on its way.
  if (name == "w1") watch_log("is connected with worker 'w0'", [] { give_sign("w1_is_connected"); });
  if (name == "w0")
    watch_log("is connected with worker 'w1'", [] {
      await_sign("w1_is_connected");
      give_sign("cut");
    });
  if (name != "w3") {
    const rpc::AgentOptions agent{.ping_interval = 200ms, .liveness_timeout = 3s, .grace_period = 3s};
    say(name + " joins: " + outcome_of([&] { rpc::init_rpc(name, {.init_timeout = 12s, .agent = agent}); }));
    give_sign("failed." + name);
  }
  for (const char* one : {"failed.w0", "failed.w1", "failed.w2"}) await_sign(one);
}

/// w1 is cut off for a while, and closes its connections except those to rank 0: no call is lost, and none runs twice.
void short_partition(const std::string& name) {
  const int self = join_and_cut(name, 60s);
  const int calls = 100;
  std::vector<std::pair<int, rpc::Future<int>>> pending;
  for (int i = 0; i < calls; ++i) {
    if (i == calls / 2 && self == 1) soak::cut_all_but(29500);
    for (int other = 0; other < 4; ++other) pending.emplace_back(other, rpc::rpc_async<&count>(other, self));
  }
  for (auto& [other, result] : pending) result.wait();
  if (!std::filesystem::exists(sign("has_healed")) && self == 1) throw std::logic_error("there was no partition");
  for (int other = 0; other < 4; ++other)
    if (const int ran = rpc::rpc_sync<&counted>(other, self); ran != calls + 1)
      throw std::logic_error("of " + std::to_string(calls + 1) + " calls " + std::to_string(ran) + " have run");
  rpc::barrier(60s);
  rpc::shutdown({.timeout = 60s});
}

/// All workers lose w1, and w1 loses all of them; the others keep working.
void long_partition(const std::string& name) {
  const int self = join_and_cut(name, 3s);
  const auto call = [&](int other) {
    return outcome_of([&] { rpc::rpc_sync<&count>(other, {.timeout = 60s}, self); });
  };
  say(name + " calls: " + call(self == 1 ? 0 : 1));
  if (self != 1) say(name + " meets: " + outcome_of([] { rpc::barrier(2s); }));
  give_sign("lost." + std::to_string(self));
  for (int other = 0; other < 4; ++other) await_sign("lost." + std::to_string(other));
  give_sign("heal");
  await_sign("has_healed");
  if (self != 1) say(name + " calls others: " + call(self == 0 ? 2 : 0));
  give_sign("done." + std::to_string(self));
  for (int other = 0; other < 4; ++other) await_sign("done." + std::to_string(other));
  rpc::shutdown({.graceful = false});
}

struct Pinned {};
rpc::RRef<Pinned> pinned;  // to an object of another worker
void hold() { pinned = rpc::remote<Pinned>("w1"); }
int held_by_others() { return static_cast<int>(rpc::RRefContext::of(*rpc::default_agent())->counters().forks); }

/// No worker calls another, but w1 waits in a barrier. Each worker prints the losses that it learns of: w2, then rank
/// 0.
void idle(const std::string& name) {
  const rpc::AgentOptions agent{.ping_interval = 1s, .liveness_timeout = 8s, .grace_period = 1s};
  rpc::init_rpc(name, {.init_timeout = 60s, .agent = agent});
  if (name == "w0") rpc::rpc_sync<&hold>("w2");
  rpc::barrier(60s);
  if (name == "w1") {
    const bool holds = tendril::test::holds_within(60s, [] { return held_by_others() == 1; });
    say(std::string("w1 holds ") + (holds ? "an object" : "nothing") + " for others");
  }
  say(name + " is idle");
  if (name == "w1") say("w1 meets: " + outcome_of([] { rpc::barrier(60s); }));
  const rpc::GroupView view = rpc::wait_for_change(1, 60s);
  say(name + " sees w2 " + (view.members.at(2).state == rpc::MemberState::lost ? "lost" : "in another state"));
  if (name == "w1") {
    const bool freed = tendril::test::holds_within(60s, [] { return held_by_others() == 0; });
    say(std::string("w1 holds ") + (freed ? "nothing" : "an object") + " for others");
  }
  say(name + " waits: " + outcome_of([&] { rpc::wait_for_change(view.epoch, 60s); }));
}

/// No worker makes calls. The others learn that w1 is lost, w1 learns that rank 0 is lost, and w1's reference no longer
/// keeps w2's object alive.
void idle_partition(const std::string& name) {
  const auto hold_object_of_w2 = [](int self) {
    if (self == 2 && !tendril::test::holds_within(60s, [] { return held_by_others() == 1; }))
      throw std::logic_error("w2's object is not held");
    if (self == 1) {
      pinned = rpc::remote<Pinned>("w2");
      rpc::rpc_sync<&held_by_others>("w2");
    }
  };
  const int self = join_and_cut(name, 3s, hold_object_of_w2);
  if (self == 1) {
    say("w1 waits: " + outcome_of([] { rpc::wait_for_change(1, 60s); }));
  } else {
    const rpc::GroupView view = rpc::wait_for_change(1, 60s);
    say(name + " sees w1 " + (view.members.at(1).state == rpc::MemberState::lost ? "lost" : "in another state"));
  }
  if (self == 2) {
    const bool freed = tendril::test::holds_within(60s, [] { return held_by_others() == 0; });
    say(std::string("w2 holds ") + (freed ? "nothing" : "an object") + " for others");
  }
  give_sign("done." + std::to_string(self));
  for (int other = 0; other < 4; ++other) await_sign("done." + std::to_string(other));
  rpc::shutdown({.graceful = false});
}

/// All shut down while w1 is cut off.
void shutdown_in_partition(const std::string& name) {
  const int self = join_and_cut(name, 3s);
  say(name + " leaves: " + outcome_of([] { rpc::shutdown({.timeout = 60s}); }));
  give_sign("done." + std::to_string(self));
  for (int other = 0; other < 4; ++other) await_sign("done." + std::to_string(other));
}

int number() { return 7; }
rpc::RRef<int> number_of_w2;

/// Calls `count` on `other` until a call does not fail with PeerLostError; returns the outcome of that call.
std::string call_until_answered(int other, int self) {
  std::string outcome;
  const bool answered = tendril::test::holds_within(60s, [&] {
    outcome = outcome_of([&] { rpc::rpc_sync<&count>(other, {.timeout = 60s}, self); });
    return outcome.find("PeerLostError") == std::string::npos;
  });
  return answered ? outcome : "lost for good";
}

/// w1 and w2 lose each other while rank 0 reaches both, and rank 0 logs it; after the partition they call each other.
void partial_partition(const std::string& name) {
  if (name == "w0") watch_log("has lost worker 'w2' (rank 2), but rank 0 reaches both", [] { give_sign("noted"); });
  const int self = join_and_cut(name, 3s);
  if (self == 1 || self == 2) {
    if (self == 1) number_of_w2 = rpc::remote<&number>("w2");
    say(name + " calls: " + outcome_of([&] { rpc::rpc_sync<&count>(3 - self, {.timeout = 60s}, self); }));
    give_sign("lost." + std::to_string(self));
  }
  for (const char* one : {"lost.1", "lost.2", "noted"}) await_sign(one);
  rpc::barrier(60s);
  for (const rpc::Member& member : rpc::group_view().members)
    if (member.state != rpc::MemberState::alive) throw std::logic_error(member.worker.name + " is not alive");
  give_sign("heal");
  await_sign("has_healed");
  for (int other = 0; other < 4; ++other)
    say(name + " calls w" + std::to_string(other) + ": " + call_until_answered(other, self));
  if (self == 1) {
    say("w1 fetches: " + outcome_of([] { number_of_w2.to_here(); }));
    if (rpc::remote<&number>("w2").to_here() != 7) throw std::logic_error("a wrong number");
  }
  rpc::barrier(60s);
  rpc::shutdown({.timeout = 60s});
}

/// w2 is suspended while w1 calls it, so w1 loses it; rank 0, whose timeout is longer, does not. After w2 has resumed,
/// w1 calls it again, and then it calls w1.
void stopped_and_continued(const std::string& name) {
  const auto patience = name == "w1" ? 3s : 60s;
  const rpc::AgentOptions agent{.ping_interval = 100ms, .liveness_timeout = patience, .grace_period = 60s};
  rpc::init_rpc(name, {.init_timeout = 60s, .agent = agent});
  const int self = rpc::get_worker_info().id;
  if (self == 1) {
    number_of_w2 = rpc::remote<&number>("w2");
    number_of_w2.to_here();
  }
  rpc::barrier(60s);
  if (self == 1) {
    say("w1 calls");
    const auto call = [&] { return outcome_of([&] { rpc::rpc_sync<&count>(2, {.timeout = 60s}, self); }); };
    tendril::test::wait_until(
        "w2 does not answer", [&] { return call() != "no error"; }, 60s);
    say("w1 has lost w2");
    say("w1 calls: " + call_until_answered(2, self));
    say("w1 fetches: " + outcome_of([] { number_of_w2.to_here(); }));
  }
  rpc::barrier(60s);
  if (self == 2) say("w2 calls: " + call_until_answered(1, self));
  rpc::barrier(60s);
  rpc::shutdown({.timeout = 60s});
}

/// Rank 0 is killed. The others leave: w1 accepts losses, w2 does not.
void leave_without_rank_0(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  rpc::barrier(60s);
  say(name + " is ready");
  outcome_of([] { rpc::wait_for_change(1, 60s); });
  const bool accepts = name == "w1";
  say(name + " leaves: " + outcome_of([&] { rpc::shutdown({.timeout = 60s, .accept_losses = accepts}); }));
}

int run(const std::string& name) {
  if (name == "short_partition") return by_hand(short_partition);
  if (name == "long_partition") return by_hand(long_partition);
  if (name == "joining_partition") return by_hand(joining_partition);
  if (name == "idle_partition") return by_hand(idle_partition);
  if (name == "shutdown_in_partition") return by_hand(shutdown_in_partition);
  if (name == "partial_partition") return by_hand(partial_partition);
  if (name == "stopped_and_continued") return by_hand(stopped_and_continued);
  if (name == "leave_without_rank_0") return by_hand(leave_without_rank_0);
  if (name == "idle") return by_hand(idle);
  return 2;
}

}  // namespace partition_scenarios

int main(int argc, char** argv) { return partition_scenarios::run(argc > 1 ? argv[1] : ""); }
