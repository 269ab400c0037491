// How long many workers on this host take to start, to call all to all, and to leave: bench_rpc_workers [WORKERS].
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"

using namespace tendril;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Resident memory of this process, in MiB.
double resident_mib() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  long total = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace

void nothing() {}

void call_all_to_all(int rank, int64_t spawned_ns) {
  const Clock::time_point spawned{Clock::duration(spawned_ns)};
  rpc::InitOptions options;
  options.num_worker_threads = 1;
  options.init_timeout = std::chrono::seconds(120);
  rpc::init_rpc(std::string("w").append(std::to_string(rank)), options);
  const double joined = seconds_since(spawned), before = resident_mib();
  double first = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<rpc::Future<void>> calls;
    for (const rpc::WorkerInfo& worker : rpc::get_worker_infos()) calls.push_back(rpc::rpc_async<&nothing>(worker.id));
    for (const auto& call : calls) call.wait();
    rpc::barrier();
    if (round == 0) first = seconds_since(spawned);
  }
  const double called = seconds_since(spawned);
  const auto peers = static_cast<double>(rpc::get_worker_infos().size() - 1);
  const double kib = (resident_mib() - before) * 1024 / peers;
  rpc::shutdown();
  if (rank == 0)
    std::printf("%8.0f %10.2f %10.2f %10.2f %10.2f %14.1f\n", peers + 1, joined, first - joined, called - first,
                seconds_since(spawned) - called, kib);
}

int main(int argc, char** argv) {
  rpc::worker_main(argc, argv);
  std::vector<int> sizes{16, 64, 256};
  CLI::App app("Groups that start, call all to all and leave");
  app.add_option("workers", sizes, "How many, group after group")->check(CLI::Range(2, 4096));
  CLI11_PARSE(app, argc, argv);
  std::printf("seconds, of rank 0:\n%8s %10s %10s %10s %10s %14s\n", "workers", "start", "first", "four more", "leave",
              "KiB a peer");
  std::fflush(stdout);
  for (const int size : sizes) {
    const auto start = Clock::now();
    rpc::spawn<&call_all_to_all>({.world_size = size}, static_cast<int64_t>(start.time_since_epoch().count()));
    std::printf("%8s %10.2f until the last process has ended\n", "", seconds_since(start));
    std::fflush(stdout);
  }
}
