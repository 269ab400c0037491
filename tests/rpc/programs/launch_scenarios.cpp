// Scenarios of launch_test: launch_scenarios NAME [--rank N] [--size N] [--default N] [--port N]

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/launch.h"

namespace rpc = tendril::rpc;

namespace launch_scenarios {

/// Writes the line with one call, so that the lines of several processes do not mix.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}

int who() { return rpc::get_worker_info().id; }

void meet(int rank, const std::string& word) {
  std::string name("w");
  rpc::init_rpc(name.append(std::to_string(rank)));
  const rpc::LaunchInfo info = rpc::launch_info();
  for (const auto& worker : rpc::get_worker_infos())
    if (rpc::rpc_sync<&who>(worker.name) != worker.id) throw std::logic_error("a wrong rank");
  rpc::shutdown();
  say(word + " from " + std::to_string(info.rank) + " of " + std::to_string(info.world_size) + ", local " +
      std::to_string(info.local_rank) + " of " + std::to_string(info.local_world_size) + ", by " + info.launcher);
}

int fail(int rank) { return rank == 0 ? 3 : 0; }

void say_pid(int) { say("worker " + std::to_string(::getpid())); }

int run(int argc, char** argv) {
  rpc::LaunchOptions options;
  const std::string name = argc > 1 ? argv[1] : "";
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (flag == "--rank") options.rank = value;
    if (flag == "--size") options.world_size = value;
    if (flag == "--default") options.default_world_size = value;
    if (flag == "--port") options.master_port = value;
  }
  if (name == "meet") return rpc::launch<&meet>(argc, argv, options, "hello");
  if (name == "fail") return rpc::launch<&fail>(argc, argv, options);
  if (name == "pid") {
    const int rank = rpc::launch<&say_pid>(argc, argv, options);
    say("main " + std::to_string(::getpid()));
    return rank;
  }
  if (name == "spawn") {  // a separate group, however this process was started
    rpc::worker_main(argc, argv);
    rpc::spawn<&meet>(2, "hello");
    return 0;
  }
  throw std::invalid_argument("no scenario '" + name + "'");
}

}  // namespace launch_scenarios

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "bare") {  // like a minimal program
    rpc::launch<&launch_scenarios::meet>(argc, argv, {.world_size = 2}, "hello");
    return 0;
  }
  try {
    launch_scenarios::run(argc, argv);
  } catch (const rpc::SpawnError& e) {
    launch_scenarios::say("SpawnError of rank " + std::to_string(e.rank()) + ": " + e.what());
    return 1;
  } catch (const std::exception& e) {
    launch_scenarios::say(std::string("error: ") + e.what());
    return 1;
  }
  return 0;
}
