// What processes_test runs: group_scenarios NAME. Some spawn workers, some are one worker of a group.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;

namespace group_scenarios {

/// One write, so that the lines of several processes do not mix.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}

int add(int a, int b) { return a + b; }
int pid() { return ::getpid(); }
void sleep_long() {
  rpc::blocking([] { std::this_thread::sleep_for(1h); });
}
void kill_yourself() { ::raise(SIGKILL); }

std::string name_of(int rank) {
  std::string name("w");
  return name.append(std::to_string(rank));
}

/// The kind of error that `run` ends with.
std::string outcome_of(const std::function<void()>& run) {
  try {
    run();
    return "no error";
  } catch (const rpc::PeerLostError& e) {
    return std::string(e.may_have_run() ? "PeerLostError (may have run): " : "PeerLostError: ") + e.what();
  } catch (const rpc::TimeoutError& e) {
    return std::string("TimeoutError: ") + e.what();
  } catch (const rpc::SpawnError& e) {
    return "SpawnError of rank " + std::to_string(e.rank()) + ": " + e.what();
  } catch (const std::exception& e) {
    return std::string("error: ") + e.what();
  }
}

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

void throw_while_others_wait(int rank) {
  rpc::init_rpc(name_of(rank));
  if (rank == 1) throw std::runtime_error("no such weather");
  rpc::shutdown();  // fails, since w1 leaves without it
}

void never_init(int rank) {
  if (rank == 1) std::_Exit(3);
  rpc::init_rpc(name_of(rank));
}

void call_and_wait(int rank) {
  rpc::init_rpc(name_of(rank));
  say("worker " + std::to_string(rank) + " " + std::to_string(::getpid()));
  rpc::rpc_sync<&sleep_long>((rank + 1) % 3, {.timeout = 0s});
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

/// Rank 0 never leaves.
void wait_for_rank_0(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  rpc::barrier(20s);
  say(name + " ready");
  if (rpc::get_worker_info().id == 0) released.wait();
  rpc::shutdown();
}

/// w0 calls w1, which dies of it.
void lose_a_peer(const std::string& name) {
  rpc::init_rpc(name, {.init_timeout = 20s});
  if (name == "w0") {
    const auto pending = rpc::rpc_async<&sleep_long>("w1");
    const auto deadly = rpc::rpc_async<&kill_yourself>("w1");
    say(outcome_of([&] { deadly.wait(); }));
    say(outcome_of([&] { pending.wait(); }));
    say(outcome_of([] { rpc::rpc_sync<&add>("w1", 1, 2); }));
    say(outcome_of([] { rpc::rpc_sync<&add>("w2", 1, 2); }));
    outcome_of([] { rpc::rpc_sync<&release>("w2"); });  // it may be gone before it has answered
  } else {
    released.wait();
  }
  rpc::shutdown();
}

/// A worker that throws out of main; out of a thread of its own; whose handler raises a fault.
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

int by_hand(void (*run)(const std::string&)) {
  const std::string name = name_of(std::atoi(std::getenv("RANK")));
  const std::string error = outcome_of([&] { run(name); });
  say(name + ": " + error);
  return 0;
}

int run(const std::string& name) {
  auto report = [](const std::function<void()>& spawn) {
    say(outcome_of(spawn));
    return 0;
  };
  if (name == "call_all") return report([] { rpc::spawn<&call_all>(4, 16); });
  if (name == "call_all_1") return report([] { rpc::spawn<&call_all>(4, 1); });
  if (name == "many") return report([] { rpc::spawn<&call_all>(24, 2); });
  if (name == "spawn_three_times")
    return report([] {
      rpc::spawn<&call_all>(2, 1);
      rpc::spawn<&call_all>(3, 2);
      rpc::spawn<&call_all>(2, 1);
    });
  if (name == "init_three_times") return report([] { rpc::spawn<&init_three_times>(3); });
  if (name == "stop_a_peer") return report([] { rpc::spawn<&stop_a_peer>(2); });
  if (name == "throw") return report([] { rpc::spawn<&throw_while_others_wait>(3); });
  if (name == "never_init") return report([] { rpc::spawn<&never_init>(3); });
  if (name == "call_and_wait") return report([] { rpc::spawn<&call_and_wait>(3); });
  if (name == "forget_shutdown") return report([] { rpc::spawn<&forget_shutdown>(3); });
  if (name == "member") return by_hand(member);
  if (name == "wait_for_rank_0") return by_hand(wait_for_rank_0);
  if (name == "lose_a_peer") return by_hand(lose_a_peer);
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
