#include "bench/rpc/compared.h"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/rpc/server.h"
#include "bench/rpc/timed_calls.h"
#include "tendril/tensor/raw.h"

namespace tendril::bench {

namespace {

struct Size {
  const char* name;
  std::size_t bytes;
  int rounds;
};
constexpr std::array<Size, 2> kSizes{{{"64 KB", 64 << 10, 2000}, {"1 MB", 1 << 20, 400}}};

}  // namespace

void print_compared(Transport transport, int client_cpu, int server_cpu, double seconds) {
  const auto floor = [&](std::size_t bytes, int rounds) {
    return play({.transport = transport,
                 .waiting = Waiting::epoll,
                 .request_bytes = bytes,
                 .reply_bytes = bytes,
                 .client_cpu = client_cpu,
                 .server_cpu = server_cpu,
                 .rounds = rounds});
  };
  // The games fork, so they are played before there are threads.
  const std::vector<double> empty_floor = floor(112, 10000);  // an empty call's frame
  std::array<double, kSizes.size()> floors{};
  for (std::size_t i = 0; i < kSizes.size(); ++i) floors[i] = median(floor(kSizes[i].bytes + 192, kSizes[i].rounds));

  const auto say = [&](const std::string& name, double value, double beside = 0) {
    std::printf("%s\t%s\t%.1f\t", name_of(transport), name.c_str(), value);
    if (beside > 0) std::printf("%.1f", beside);
    std::printf("\n");
    std::fflush(stdout);
  };
  Server server(transport, client_cpu, server_cpu);
  rpc::Agent& agent = server.agent();
  const auto empty = [&] { call_nothing(agent); };
  time_for(seconds / 5, empty);
  const std::vector<double> calls = time_for(seconds, empty);
  say("empty call, p50, us", median(calls), median(empty_floor));
  say("empty call, p99, us", percentile(calls, 0.99), percentile(empty_floor, 0.99));
  calls_per_second(agent, 100, seconds / 5);
  say("calls/s, 100 in flight", calls_per_second(agent, 100, seconds));
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const Tensor x = raw::full({static_cast<int64_t>(kSizes[i].bytes / 4)}, 1.0);
    const auto echo = [&] { call_echo(agent, x); };
    time_for(seconds / 5, echo);
    say(std::string(kSizes[i].name) + " there and back, p50, us", median(time_for(seconds, echo)), floors[i]);
  }
  say("beside 1% that sleep for 5 ms, p50, us", median(beside_sleepers(agent, seconds)));
  say("beside 64 MiB, p99, us", percentile(beside_large(agent, seconds, 64).micros, 0.99));
}

}  // namespace tendril::bench
