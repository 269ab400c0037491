// Many workers in one process, connected over Unix-domain sockets: bench_rpc_agents [WORKERS]. Each calls rank 0 and
// the workers whose rank differs from its own in one bit. Also prints the memory of an idle connection and of a call
// that waits.
#include <malloc.h>
#include <sys/resource.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/task.h"

using namespace tendril;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Raises the limit of open files as far as the system allows.
void raise_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

/// Of the heap, in KiB: what is allocated now.
double heap_kib() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / 1024;
}

std::vector<int> peers_of(int rank, int size) {
  std::vector<int> peers;
  if (rank != 0) peers.push_back(0);
  for (int bit = 1; bit < size; bit <<= 1) {
    if (const int peer = rank ^ bit; peer < size && peer != 0) peers.push_back(peer);
  }
  return peers;
}

}  // namespace

namespace agents {

rpc::Promise<void>* gate = nullptr;
int answer(int x) { return x + 1; }
rpc::Task<int> wait_for_gate(int x) {
  co_await gate->future();
  co_return x;
}

}  // namespace agents

int main(int argc, char** argv) {
  int size = 1000;
  CLI::App app("Many workers in one process");
  app.add_option("workers", size, "How many")->check(CLI::Range(2, 4096));
  CLI11_PARSE(app, argc, argv);
  raise_file_limit();
  double heap = heap_kib();
  auto start = Clock::now();
  const auto phase = [&](const char* what, double count) {
    const double now = heap_kib();
    std::printf("%-28s %8.0f %8.2f s %10.2f us each %10.2f KiB of heap each\n", what, count, seconds_since(start),
                seconds_since(start) / count * 1e6, (now - heap) / count);
    std::fflush(stdout);
    heap = now;
    start = Clock::now();
  };

  std::vector<std::unique_ptr<rpc::Agent>> workers;
  std::vector<rpc::Agent::Endpoint> endpoints;
  for (int rank = 0; rank < size; ++rank) {
    workers.push_back(
        std::make_unique<rpc::Agent>(rpc::AgentOptions{.name = std::string("w").append(std::to_string(rank)),
                                                       .rank = rank,
                                                       .world_size = size,
                                                       .num_worker_threads = 1},
                                     rpc::served_functions()));
    rpc::RRefContext::attach(*workers.back());
    endpoints.push_back(workers.back()->listen({.unix_socket = true, .tcp = false}));
  }
  phase("workers", size);
  int connections = 0;
  for (int rank = 0; rank < size; ++rank) {
    for (const int peer : peers_of(rank, size)) {
      if (peer > rank) continue;
      const auto at = static_cast<std::size_t>(peer);
      const auto deadline = rpc::Clock::now() + std::chrono::minutes(1);
      workers[static_cast<std::size_t>(rank)]->connect(workers[at]->self(), endpoints[at], deadline);
      if (!workers[at]->wait_connected(rank, deadline)) return EXIT_FAILURE;
      ++connections;
    }
  }
  phase("connections", connections);
  double calls = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<rpc::Future<int>> answers;
    for (int rank = 0; rank < size; ++rank) {
      for (const int peer : peers_of(rank, size)) {
        answers.push_back(rpc::rpc_async<&agents::answer>(*workers[static_cast<std::size_t>(rank)], peer, rank));
      }
    }
    for (const auto& one : answers) (void)one.wait();
    calls += static_cast<double>(answers.size());
    answers.clear();
    phase(round == 0 ? "calls, first round" : "calls", static_cast<double>(calls));
    calls = 0;
  }
  rpc::Promise<void> open;
  agents::gate = &open;
  std::vector<rpc::Future<int>> waiting;
  constexpr int kWaiting = 10'000;
  for (int i = 0; i < kWaiting; ++i) waiting.push_back(rpc::rpc_async<&agents::wait_for_gate>(*workers[1], 0, i));
  while (workers[0]->metrics().unanswered_calls < kWaiting || workers[0]->metrics().queued_jobs > 0) {
  }
  phase("calls that wait, both sides", kWaiting);
  open.set_value();
  for (const auto& one : waiting) (void)one.wait();
  waiting.clear();
  phase("calls that waited", kWaiting);
  for (const auto& agent : workers) agent->shutdown();
  phase("workers shut down", size);
}
