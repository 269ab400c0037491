#include "bench/rpc/crowded.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "bench/rpc/server.h"
#include "bench/rpc/timed_calls.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/rref.h"
#include "tendril/rpc/session/agent_impl.h"

// Functions that the server serves.
tendril::rpc::Future<void> never() {
  static std::deque<tendril::rpc::Promise<void>> promises;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return promises.emplace_back().future();
}
int number() { return 7; }

namespace tendril::bench {

namespace {

using Clock = std::chrono::steady_clock;

/// Median of three rounds' medians, in microseconds.
double median_call(rpc::Agent& agent) {
  std::vector<double> rounds;
  for (int i = 0; i < 3; ++i) rounds.push_back(median(time_for(0.5, [&] { call_nothing(agent); })));
  std::sort(rounds.begin(), rounds.end());
  return rounds[1];
}

double beside_pending(Server& server, int count) {
  std::vector<rpc::Future<void>> pending;
  for (int i = 0; i < count; ++i)
    pending.push_back(rpc::rpc_async<&never>(server.agent(), 1, {.timeout = std::chrono::hours(1)}));
  return median_call(server.agent());
}

double beside_references(Server& server, int count) {
  std::vector<rpc::RRef<int>> references;
  for (int i = 0; i < count; ++i) references.push_back(rpc::remote<&number>(server.agent(), 1));
  for (const auto& reference : references) reference.to_here();
  return median_call(server.agent());
}

/// Beside peers without a connection.
double beside_peers(Server& server, int count) {
  rpc::Agent::Impl& agent = server.agent().impl();
  rpc::Hello theirs;
  theirs.world_size = agent.options.world_size;
  theirs.incarnation = 1;
  for (int rank = 2; rank < count + 1; ++rank) {
    theirs.worker = {"peer" + std::to_string(rank), rank};
    agent.add_unconnected(theirs, {.unix_path = "/nobody"});
  }
  return median_call(server.agent());
}

/// Allocated memory of this process, in bytes.
double allocated() {
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<double>(now.uordblks + now.hblkhd);
}

void print_overdue(Transport transport, int client_cpu, int server_cpu, int count) {
  // Room for them all: else calls wait until earlier ones have begun.
  constexpr std::size_t kRoom = std::size_t{4} << 30;
  Server server(transport, client_cpu, server_cpu, [](rpc::Agent&) {},
                {.world_size = 2, .send_limit = kRoom, .receive_limit = kRoom});
  call_nothing(server.agent());
  server.stop();
  const double before = allocated();
  const auto start = Clock::now();
  std::vector<rpc::Future<void>> calls;
  calls.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    calls.push_back(rpc::rpc_async<&never>(server.agent(), 1, {.timeout = std::chrono::seconds(10)}));
  const double made = seconds_since(start), memory = (allocated() - before) / count;
  int overdue = 0;
  for (const auto& call : calls) {
    try {
      call.wait();
    } catch (const rpc::TimeoutError&) {
      ++overdue;
    } catch (const rpc::RpcError&) {  // failed, but not overdue
    }
  }
  std::printf(
      "\n%d calls with a deadline of 10 s to a suspended server: issued in %.2f s, %d timed out, the last after "
      "%.2f s; %.0f bytes per call\n",
      count, made, overdue, seconds_since(start), memory);
  server.go_on();
}

}  // namespace

void print_crowded(Transport transport, int client_cpu, int server_cpu, bool quick) {
  std::vector<int> counts{10, 100, 1'000, 10'000};
  if (!quick) counts.push_back(100'000);
  std::printf("\n| empty call over %s, p50, us, beside |", name_of(transport));
  for (const int count : counts) std::printf(" %d |", count);
  std::printf("\n|---|");
  for (std::size_t i = 0; i < counts.size(); ++i) std::printf("---|");
  const struct {
    const char* name;
    double (*measure)(Server&, int);
  } rows[] = {{"pending calls", beside_pending}, {"references", beside_references}, {"peers", beside_peers}};
  for (const auto& row : rows) {
    std::printf("\n| %s |", row.name);
    for (const int count : counts) {
      const bool peers = row.measure == beside_peers;
      const auto prepare = [peers](rpc::Agent& agent) {
        if (!peers) rpc::RRefContext::attach(agent);  // takes at most 65,536 workers
      };
      Server server(transport, client_cpu, server_cpu, prepare, {.world_size = peers ? count + 1 : 2});
      std::printf(" %.1f |", row.measure(server, count));
      std::fflush(stdout);
    }
  }
  std::printf("\n");
  print_overdue(transport, client_cpu, server_cpu, quick ? 100'000 : 1'000'000);
  std::fflush(stdout);
}

}  // namespace tendril::bench
