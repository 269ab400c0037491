#include "bench/rpc/disturbed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "bench/rpc/server.h"
#include "tendril/rpc/call.h"
#include "tendril/tensor/raw.h"

namespace {

using namespace tendril;
using Clock = std::chrono::steady_clock;

}  // namespace

// What the server serves.
void sleep_for_5_ms() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }
void nothing_beside() {}
Tensor large_echo(Tensor x) { return x; }

namespace {

constexpr int64_t kLargeBytes = 64 << 20;
constexpr int kSleepsIn = 100;

/// Of empty calls, in microseconds, sorted. `before_each` is told how many there were.
std::vector<double> small_calls(rpc::Agent& agent, double seconds, const std::function<void(int)>& before_each) {
  std::vector<double> micros;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (int i = 0; Clock::now() < end; ++i) {
    before_each(i);
    const Clock::time_point start = Clock::now();
    rpc::rpc_sync<&nothing_beside>(agent, 1);
    micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(micros.begin(), micros.end());
  return micros;
}

void print(const char* name, const std::vector<double>& micros, const char* more = "") {
  std::printf("%-28s | %9.1f %9.1f %9.1f %9.1f | %8zu%s\n", name, bench::median(micros), bench::percentile(micros, 0.9),
              bench::percentile(micros, 0.99), micros.back(), micros.size(), more);
}

}  // namespace

namespace tendril::bench {

void print_disturbed(Transport transport, int client_cpu, int server_cpu, double seconds) {
  std::printf("\nempty calls over %s, us\n%-28s | %9s %9s %9s %9s | %8s\n", name_of(transport), "beside them", "p50",
              "p90", "p99", "most", "calls");
  Server server(transport, client_cpu, server_cpu);
  rpc::Agent& agent = server.agent();
  const auto nobody = [](int) {};
  small_calls(agent, seconds / 10, nobody);
  print("nothing", small_calls(agent, seconds, nobody));

  std::vector<rpc::Future<void>> sleeping;
  print("1% that sleep for 5 ms", small_calls(agent, seconds, [&](int i) {
          if (i % kSleepsIn == 0) sleeping.push_back(rpc::rpc_async<&sleep_for_5_ms>(agent, 1));
        }));
  for (const auto& future : sleeping) future.wait();

  std::atomic<bool> done{false};
  int echoed = 0;
  Clock::duration took{};
  std::jthread large([&] {
    const Tensor x = raw::full({kLargeBytes / 4}, 1.0);
    const Clock::time_point start = Clock::now();
    for (; !done; ++echoed) rpc::rpc_sync<&large_echo>(agent, 1, x);
    took = Clock::now() - start;
  });
  const std::vector<double> micros = small_calls(agent, seconds, nobody);
  done = true;
  large.join();
  char more[64];
  std::snprintf(more, sizeof more, ", %.1f ms each of %d of 64 MB",
                std::chrono::duration<double, std::milli>(took).count() / std::max(echoed, 1), echoed);
  print("64 MB there and back", micros, more);
  std::fflush(stdout);
}

}  // namespace tendril::bench
