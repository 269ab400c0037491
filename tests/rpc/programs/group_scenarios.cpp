// Scenarios of processes_test: group_scenarios NAME. Some spawn workers, others are one worker of a group.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/spawn.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/asleep.h"
#include "tests/rpc/process.h"
#include "tests/rpc/scenario.h"
#include "tests/wait_until.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;

namespace group_scenarios {

using namespace scenario;

int add(int a, int b) { return a + b; }
int pid() { return ::getpid(); }
/// Never returns; the process must be ended from outside.
void wait_for_ever() {
  rpc::blocking([] {
    for (;;) ::pause();
  });
}
void kill_yourself() { ::raise(SIGKILL); }

// ---- Workers

void call_all(int rank, int threads) {
  rpc::init_rpc(name_of(rank), {.num_worker_threads = threads});
  const int world_size = rpc::SpawnContext::current()->world_size;
  for (int other = 0; other < world_size; ++other)
    if (rpc::rpc_sync<&add>(name_of(other), rank, other) != rank + other) throw std::logic_error("a wrong sum");
  rpc::shutdown();
}

void init_three_times(int rank) {
  for (int round = 0; round < 3; ++round) call_all(rank, 1);
}

/// Rank 0 stops a worker and calls it.
void stop_a_peer(int rank) {
  rpc::init_rpc(name_of(rank));
  if (rank == 0) {
    const int peer = rpc::rpc_sync<&pid>("w1");
    ::kill(peer, SIGSTOP);
    say(outcome_of([] { rpc::rpc_sync<&add>("w1", {.timeout = 200ms}, 1, 2); }));
    say(outcome_of([] { rpc::shutdown({.timeout = 500ms}); }));
    ::kill(peer, SIGCONT);
    return;
  }
  rpc::shutdown({.timeout = 30s});
}

std::vector<std::string> noted;
void note_tensor(const std::string& name, const tendril::Tensor& x) {
  noted.push_back(name + " of " + std::to_string(x.numel() * 4));
}
void note(const std::string& name) { noted.push_back(name); }
std::vector<std::string> all_noted() { return noted; }

/// Rank 0 makes a small call after a large one while w1 is stopped, so that the large one cannot be sent in full.
void overtake(int rank) {
  rpc::init_rpc(name_of(rank), {.num_worker_threads = 1});
  if (rank == 0) {
    const int peer = rpc::rpc_sync<&pid>("w1");
    tendril::test::stop(peer);
    const auto large = rpc::rpc_async<&note_tensor>("w1", "a tensor", tendril::raw::full({16 << 20}, 1.0));
    const auto small = rpc::rpc_async<&note>("w1", "a small call");
    ::kill(peer, SIGCONT);
    large.wait();
    small.wait();
    for (const std::string& name : rpc::rpc_sync<&all_noted>("w1")) say(name);
  }
  rpc::shutdown();
}

void throw_while_others_wait(int rank) {
  rpc::init_rpc(name_of(rank));
  if (rank == 1) throw std::runtime_error("no such weather");
  rpc::shutdown();  // fails, because w1 leaves alone
}

void never_init(int rank) {
  if (rank == 1) std::_Exit(3);
  rpc::init_rpc(name_of(rank));
}

void call_and_wait(int rank) {
  rpc::init_rpc(name_of(rank));
  say("worker " + std::to_string(rank) + " " + std::to_string(::getpid()));
  rpc::rpc_sync<&wait_for_ever>((rank + 1) % 3, {.timeout = 0s});
}

void forget_shutdown(int rank) {
  rpc::init_rpc(name_of(rank));
  rpc::barrier();
}

// ---- Workers started by hand; rank, world size and port come from the environment

std::latch released(1);
void release() { released.count_down(); }

void member(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  for (const rpc::WorkerInfo& other : rpc::get_worker_infos())
    if (rpc::rpc_sync<&add>(other, other.id, 1) != other.id + 1) throw std::logic_error("a wrong sum");
  rpc::barrier(20s);
  rpc::shutdown({.timeout = 20s});
}

/// Joins a group that detects a silent worker after three seconds.
void join(const std::string& name) {
  const rpc::AgentOptions agent{.ping_interval = 200ms, .liveness_timeout = 3s, .grace_period = 3s};
  rpc::init_rpc(name, {.init_timeout = 10s, .agent = agent});
}

/// Rank 0 never leaves.
void wait_for_rank_0(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  rpc::barrier(20s);
  say(name + " ready");
  if (rpc::get_worker_info().id == 0) released.wait();
  rpc::shutdown();
}

/// w0 calls w1, which dies in the call.
void lose_a_peer(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  if (name == "w0") {
    const auto pending = rpc::rpc_async<&wait_for_ever>("w1");
    const auto deadly = rpc::rpc_async<&kill_yourself>("w1");
    say(outcome_of([&] { deadly.wait(); }));
    say(outcome_of([&] { pending.wait(); }));
    say(outcome_of([] { rpc::rpc_sync<&add>("w1", 1, 2); }));
    say(outcome_of([] { rpc::rpc_sync<&add>("w2", 1, 2); }));
    outcome_of([] { rpc::rpc_sync<&release>("w2"); });  // it may leave before it answers
  } else {
    released.wait();
  }
  rpc::shutdown();
}

struct Held {
  int value = 5;
  int get() { return value; }
};

/// w2 is killed and restarted; the other workers print their observations.
void killed_and_started_anew(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  const auto say_outcome = [&](const char* what, const std::function<void()>& run) {
    say(name + " " + what + ": " + outcome_of(run));
  };
  const auto meet = [&] {
    for (const rpc::WorkerInfo& other : rpc::get_worker_infos())
      say_outcome("calls", [&] {
        if (rpc::rpc_sync<&add>(other, 1, 2) != 3) throw std::logic_error("a wrong sum");
      });
    say_outcome("meets", [] { rpc::barrier(60s); });
  };
  if (rpc::group_view().epoch > 1) {
    say(name + " is back");
    meet();
    say_outcome("leaves", [] { rpc::shutdown({.timeout = 60s}); });
    return;
  }
  rpc::barrier(60s);
  if (name == "w2") {
    say("w2 ready");
    return released.wait();
  }
  rpc::RRef<Held> held = rpc::remote<Held>("w2");
  if (held.rpc_sync<&Held::get>() != 5) throw std::logic_error("another value");
  const rpc::Future<void> pending = rpc::rpc_async<&wait_for_ever>("w2", {.timeout = 0s});
  say(name + " ready");
  say_outcome("waits", [] { rpc::barrier(0ms); });
  say_outcome("waited", [&] { pending.wait(); });
  const rpc::GroupView without = rpc::wait_for_change(1, 60s);
  say_outcome("continues", [&] { rpc::barrier(without, 60s); });
  rpc::wait_for_change(without.epoch, 60s);
  say_outcome("refers", [&] { held.rpc_sync<&Held::get>(); });
  meet();
  held = {};
  say_outcome("leaves", [] { rpc::shutdown({.timeout = 60s}); });
}

/// w1 and w2 serve until w0 is done. w2 is killed and restarted meanwhile.
void serve_in_shutdown(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  say(name + " ready");
  if (name == "w0") {
    rpc::wait_for_change(2, 60s);
    for (const char* const server : {"w1", "w2"})
      if (rpc::rpc_sync<&add>(server, 1, 2) != 3) throw std::logic_error("a wrong sum");
  }
  rpc::shutdown();
}

void meet() { rpc::barrier({rpc::get_worker_info().name}, 60s); }
void quit() { std::exit(7); }

/// Once w1 is in shutdown(), a barrier in one of its handlers fails. Before that it succeeds: w1 is the only member.
void meet_in_shutdown(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  if (name == "w0") {
    std::string outcome;
    tendril::test::wait_until("a barrier in a handler of w1 fails because of the shutdown", [&] {
      outcome = outcome_of([] { rpc::rpc_sync<&meet>("w1"); });
      return outcome.find("shutdown") != std::string::npos;
    });
    say(outcome);
    say(outcome_of([] { rpc::barrier(-1ms); }));
  }
  rpc::shutdown();
}

/// w0 leaves on its own while another of its threads waits in a barrier that w1 never reaches.
void leave_in_a_barrier(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  if (name == "w0") {
    std::atomic<pid_t> id{0};
    std::thread waits([&] {
      id = ::gettid();
      say(outcome_of([] { rpc::barrier(0ms); }));
    });
    if (!tendril::test::wait_until_asleep(id)) say("the barrier does not wait");
    rpc::shutdown({.graceful = false});
    waits.join();
  } else {
    wait_for_ever();
  }
}

/// A handler of w1 exits, and so does a forked child of w0.
void exits(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  if (name == "w1") wait_for_ever();
  if (const pid_t child = ::fork(); child == 0) {
    std::exit(3);
  } else {
    int status = 0;
    ::waitpid(child, &status, 0);
    say("child exited with " + std::to_string(WEXITSTATUS(status)));
  }
  if (rpc::rpc_sync<&add>("w1", 1, 2) != 3) throw std::logic_error("a wrong sum");
  say(outcome_of([] { rpc::rpc_sync<&quit>("w1"); }));
  rpc::shutdown({.graceful = false});
}

/// w1 has no descriptors left while workers that are not connected yet connect to each other. Workers that are
/// connected to w1 are served at once, the others when it has descriptors again. Needs a small `ulimit -n`.
void out_of_descriptors(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 60s});
  std::vector<int> taken;
  if (name == "w1")
    for (int one = 0; (one = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(one);
  rpc::barrier(60s);
  std::vector<std::pair<int, rpc::Future<int>>> sums;
  for (const rpc::WorkerInfo& other : rpc::get_worker_infos())
    sums.emplace_back(other.id + 1, rpc::rpc_async<&add>(other, {.timeout = 0s}, other.id, 1));
  if (name == "w0" && rpc::rpc_sync<&add>("w1", {.timeout = 60s}, 1, 2) == 3) say("w0 is served");
  await_sign("enough");
  for (const int one : taken) ::close(one);
  for (auto& [expected, sum] : sums)
    if (sum.wait() != expected) throw std::logic_error("a wrong sum");
  rpc::barrier(60s);
  rpc::shutdown({.timeout = 60s});
}

/// Whether all 64 descriptors of the process are open and its main thread sleeps. `stat` is the open /proc file `stat`
/// of that thread.
bool is_stuck_without_descriptors(int stat) {
  for (int fd = 0; fd < 64; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) return false;
  char text[64] = {};
  return ::pread(stat, text, sizeof text - 1, 0) > 0 && std::strstr(text, ") S") != nullptr;
}

/// The worker named by SCENARIO_STARVED has few descriptors left when it is about to listen, until the file "enough"
/// exists. w1 uses them all up and then creates the folder "stuck", which needs no descriptor.
void join_short_of_descriptors(const std::string& name) {
  std::vector<int> taken;
  std::jthread giver;
  rpc::InitOptions options{.init_timeout = 60s};
  if (name == std::getenv("SCENARIO_STARVED")) {
    options.prepare = [&](const std::shared_ptr<rpc::Agent>&) {
      give_sign("starved");
      taken.push_back(
          ::open(("/proc/self/task/" + std::to_string(::getpid()) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
      for (int one = 0; (one = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(one);
      for (int left = std::atoi(std::getenv("SCENARIO_LEFT")); left > 0 && !taken.empty(); --left) {
        ::close(taken.back());
        taken.pop_back();
      }
      giver = std::jthread([&] {
        if (name == "w1") {
          tendril::test::wait_until("w1 has used up its descriptors",
                                    [&] { return is_stuck_without_descriptors(taken.front()); });
          std::filesystem::create_directory(sign("stuck"));
        }
        await_sign("enough");
        for (const int one : taken) ::close(one);
      });
    };
  }
  rpc::init_rpc(name, options);
  for (const rpc::WorkerInfo& other : rpc::get_worker_infos())
    if (rpc::rpc_sync<&add>(other, {.timeout = 60s}, other.id, 1) != other.id + 1)
      throw std::logic_error("a wrong sum");
  rpc::barrier(60s);
  rpc::shutdown({.timeout = 60s});
}

/// Workers that throw out of main, throw out of a thread, or raise a fault in a handler.
void throw_out_of_main(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  if (name == "w1") throw std::runtime_error("no such weather");
  released.wait();
}
void throw_out_of_a_thread(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  std::jthread([] { throw std::runtime_error("no such thread"); }).join();
}
void raise_a_fault() {
  std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's own handler would end the process in another way
  ::raise(SIGSEGV);
}
void fault_in_a_handler(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  if (name == "w0") say(outcome_of([] { rpc::rpc_sync<&raise_a_fault>("w1"); }));
  if (name == "w1") released.wait();
}

int run(const std::string& name) {
  auto report = [](const std::function<void()>& spawn) {
    say(outcome_of(spawn));
    return 0;
  };
  if (name == "call_all") return report([] { rpc::spawn<&call_all>(4, 16); });
  if (name == "call_all_1") return report([] { rpc::spawn<&call_all>(4, 1); });
  if (name == "many") return report([] { rpc::spawn<&call_all>(24, 2); });
  if (name == "twelve") return report([] { rpc::spawn<&call_all>(12, 2); });
  if (name == "spawn_three_times")
    return report([] {
      rpc::spawn<&call_all>(2, 1);
      rpc::spawn<&call_all>(3, 2);
      rpc::spawn<&call_all>(2, 1);
    });
  if (name == "init_three_times") return report([] { rpc::spawn<&init_three_times>(3); });
  if (name == "stop_a_peer") return report([] { rpc::spawn<&stop_a_peer>(2); });
  if (name == "overtake") return report([] { rpc::spawn<&overtake>(2); });
  if (name == "throw") return report([] { rpc::spawn<&throw_while_others_wait>(3); });
  if (name == "never_init") return report([] { rpc::spawn<&never_init>(3); });
  if (name == "call_and_wait") return report([] { rpc::spawn<&call_and_wait>(3); });
  if (name == "forget_shutdown") return report([] { rpc::spawn<&forget_shutdown>(3); });
  if (name == "member") return by_hand(member);
  if (name == "join") return by_hand(join);
  if (name == "wait_for_rank_0") return by_hand(wait_for_rank_0);
  if (name == "lose_a_peer") return by_hand(lose_a_peer);
  if (name == "serve_in_shutdown") return by_hand(serve_in_shutdown);
  if (name == "meet_in_shutdown") return by_hand(meet_in_shutdown);
  if (name == "leave_in_a_barrier") return by_hand(leave_in_a_barrier);
  if (name == "exits") return by_hand(exits);
  if (name == "killed_and_started_anew") return by_hand(killed_and_started_anew);
  if (name == "out_of_descriptors") return by_hand(out_of_descriptors);
  if (name == "join_short_of_descriptors") return by_hand(join_short_of_descriptors);
  const std::string self = std::getenv("RANK") ? name_of(std::atoi(std::getenv("RANK"))) : "";
  if (name == "throw_out_of_main") throw_out_of_main(self);
  if (name == "throw_out_of_a_thread") throw_out_of_a_thread(self);
  if (name == "fault_in_a_handler") return by_hand(fault_in_a_handler);
  return 2;
}

}  // namespace group_scenarios

int main(int argc, char** argv) {
  rpc::worker_main(argc, argv);
  return group_scenarios::run(argc > 1 ? argv[1] : "");
}
