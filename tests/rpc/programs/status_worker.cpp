// Programs of status_signal_test: status_worker NAME. Most run until they are killed.

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;

namespace status_worker {

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}
[[noreturn]] void stay() {
  for (;;) ::pause();
}

std::atomic<int> inside{0};
void hold() {
  ++inside;
  inside.notify_all();
  stay();
}
rpc::InitOptions alone() { return {.rank = 0, .world_size = 1}; }

void stuck() {
  rpc::InitOptions options = alone();
  options.num_worker_threads = 2;
  options.agent.max_threads = 3;
  rpc::init_rpc("solo", options);
  for (int i = 0; i < 8; ++i) rpc::rpc_async<&hold>(0, {.timeout = 0s}).then([](const rpc::Future<void>&) {});
  inside.wait(0);
  say("ready");
  stay();
}

void two() {
  const rpc::Group first("first", alone()), second("second", alone());
  say("ready");
  stay();
}

void left_and_joined() {
  sigset_t usr1, none;
  ::sigemptyset(&none);
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &usr1, nullptr);
  rpc::init_rpc("solo", alone());
  rpc::shutdown();
  say("left");
  ::sigsuspend(&none);  // until the signal has been handled
  ::sigprocmask(SIG_UNBLOCK, &usr1, nullptr);
  rpc::init_rpc("solo", alone());
  say("joined");
  stay();
}

void own_handler() {
  std::signal(SIGUSR1, [](int) { say("own handler"); });
  rpc::init_rpc("solo", alone());
  say("ready");
  stay();
}

void switched_off() {
  rpc::InitOptions options = alone();
  options.status_signal = false;
  rpc::init_rpc("solo", options);
  say("ready");
  stay();
}

/// Rank 2 joins no group.
void spawned_worker(int rank) {
  if (rank < 2) rpc::init_rpc("w" + std::to_string(rank), {.world_size = 2});
  say("ready " + std::to_string(::getpid()));
  stay();
}

void worker_without_a_group(int) {
  say("ready");
  stay();
}

void spawner_in_a_group() {
  rpc::init_rpc("solo", alone());
  rpc::spawn<&worker_without_a_group>(1);
}

/// Runs until no process has the pipe open for reading.
void worker_until(int, const std::string& pipe) {
  pollfd end{::open(pipe.c_str(), O_WRONLY), 0, 0};
  while ((end.revents & POLLERR) == 0) ::poll(&end, 1, -1);
}

/// Joins the group while a spawn is running, and stays in it afterwards.
void joins_while_it_spawns() {
  const std::string pipe = "/tmp/tendril_status_" + std::to_string(::getpid());
  ::mkfifo(pipe.c_str(), 0600);
  std::thread spawner([&] { rpc::spawn<&worker_until>(1, pipe); });
  const int reader = ::open(pipe.c_str(), O_RDONLY);  // returns when the worker has it open
  ::unlink(pipe.c_str());
  rpc::init_rpc("solo", alone());
  ::close(reader);
  spawner.join();
  say("ready");
  stay();
}

void forked() {
  rpc::init_rpc("solo", alone());
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGUSR1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  say("child ended by signal " + std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : 0));
  stay();
}

int add(int a, int b) { return a + b; }

/// Joins, makes a call and leaves.
int alone_and_well() {
  rpc::init_rpc("solo", alone());
  rpc::rpc_sync<&add>(0, 1, 2);
  rpc::shutdown();
  return 0;
}

/// Rank 2 is killed once every worker has called all workers.
int traced() {
  const int rank = std::atoi(std::getenv("RANK"));
  rpc::init_rpc(std::string("w").append(std::to_string(rank)), {.init_timeout = 60s});
  for (int other = 0; other < 3; ++other) rpc::rpc_sync<&add>(other, rank, other);
  rpc::barrier();
  say("ready");
  if (rank == 2) stay();
  try {
    rpc::shutdown({.timeout = 60s});
  } catch (const rpc::PeerLostError&) {
    return 0;
  }
  return 1;
}

int run(const std::string& name) {
  if (name == "traced") return traced();
  if (name == "alone") return alone_and_well();
  if (name == "stuck") stuck();
  if (name == "two") two();
  if (name == "left_and_joined") left_and_joined();
  if (name == "own_handler") own_handler();
  if (name == "switched_off") switched_off();
  if (name == "forked") forked();
  if (name == "spawned") rpc::spawn<&spawned_worker>(3);
  if (name == "spawner_in_a_group") spawner_in_a_group();
  if (name == "joins_while_it_spawns") joins_while_it_spawns();
  return 2;
}

}  // namespace status_worker

int main(int argc, char** argv) {
  rpc::worker_main(argc, argv);
  return status_worker::run(argv[1] ? argv[1] : "");
}
