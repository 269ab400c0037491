#include "bench/rpc/disturbed.h"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/rpc/server.h"
#include "bench/rpc/timed_calls.h"

namespace tendril::bench {

namespace {

constexpr std::array<int64_t, 2> kLargeMib{64, 400};

void print(const char* name, const std::vector<double>& micros, const char* more = "") {
  std::printf("%-28s | %9.1f %9.1f %9.1f %9.1f | %8zu%s\n", name, median(micros), percentile(micros, 0.9),
              percentile(micros, 0.99), micros.back(), micros.size(), more);
}

}  // namespace

void print_disturbed(Transport transport, int client_cpu, int server_cpu, double seconds) {
  std::printf("\nempty calls over %s, us\n%-28s | %9s %9s %9s %9s | %8s\n", name_of(transport), "beside them", "p50",
              "p90", "p99", "most", "calls");
  Server server(transport, client_cpu, server_cpu);
  rpc::Agent& agent = server.agent();
  const auto empty = [&] { call_nothing(agent); };
  time_for(seconds / 10, empty);
  print("nothing", time_for(seconds, empty));
  print("1% that sleep for 5 ms", beside_sleepers(agent, seconds));
  for (const int64_t mib : kLargeMib) {
    const BesideLarge beside = beside_large(agent, mib > 64 ? 3 * seconds : seconds, mib);
    char name[32], more[64];
    std::snprintf(name, sizeof name, "%d MiB there and back", static_cast<int>(mib));
    std::snprintf(more, sizeof more, ", %.1f ms each of %d", beside.milliseconds, beside.echoed);
    print(name, beside.micros, more);
  }
  std::fflush(stdout);
}

}  // namespace tendril::bench
