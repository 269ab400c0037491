#include "bench/rpc/disturbed.h"

#include <algorithm>
#include <array>
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

constexpr std::array<int64_t, 2> kLargeMib{64, 400};
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

/// Beside tensors of that size that another thread sends there and back all the time.
void beside_large(rpc::Agent& agent, double seconds, int64_t mib) {
  std::atomic<bool> done{false};
  int echoed = 0;
  Clock::duration took{};
  const Tensor x = raw::full({(mib << 20) / 4}, 1.0);
  rpc::rpc_sync<&large_echo>(agent, 1, x);  // its memory has been touched by then
  std::jthread large([&] {
    const Clock::time_point start = Clock::now();
    for (; !done; ++echoed) rpc::rpc_sync<&large_echo>(agent, 1, x);
    took = Clock::now() - start;
  });
  const std::vector<double> micros = small_calls(agent, seconds, [](int) {});
  done = true;
  large.join();
  char name[32], more[64];
  std::snprintf(name, sizeof name, "%d MiB there and back", static_cast<int>(mib));
  std::snprintf(more, sizeof more, ", %.1f ms each of %d",
                std::chrono::duration<double, std::milli>(took).count() / std::max(echoed, 1), echoed);
  print(name, micros, more);
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

  for (const int64_t mib : kLargeMib) beside_large(agent, mib > 64 ? 3 * seconds : seconds, mib);
  std::fflush(stdout);
}

}  // namespace tendril::bench
