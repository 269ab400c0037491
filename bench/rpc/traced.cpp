#include "bench/rpc/traced.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/rpc/server.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/threads/trace.h"

namespace tendril::bench {

void nothing_traced() {}

void trace(rpc::Agent& agent) {
  agent.set_trace(std::make_shared<rpc::detail::Trace>("/dev/null", agent.self(), agent.incarnation()));
}

namespace {

/// Of empty calls, in microseconds.
double median_call(Transport transport, int client_cpu, int server_cpu, bool traced) {
  constexpr int kCalls = 10'000;  // a trace has room for 100 times as many
  Server server(transport, client_cpu, server_cpu, [&](rpc::Agent& agent) {
    if (traced) trace(agent);
  });
  std::vector<double> micros;
  for (int i = -kCalls / 10; i < kCalls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    rpc::rpc_sync<&nothing_traced>(server.agent(), 1);
    if (i >= 0)
      micros.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(micros.begin(), micros.end());
  return median(micros);
}

}  // namespace

void print_traced(Transport transport, int client_cpu, int server_cpu, int pairs) {
  std::vector<double> without, with, ratio;
  for (int i = 0; i < pairs; ++i) {
    without.push_back(median_call(transport, client_cpu, server_cpu, false));
    with.push_back(median_call(transport, client_cpu, server_cpu, true));
    ratio.push_back(with.back() / without.back());
  }
  for (auto* list : {&without, &with, &ratio}) std::sort(list->begin(), list->end());
  std::printf("empty call over %s, us: %.2f, traced %.2f; traced / not in %d pairs: median %.3f, %.3f to %.3f\n",
              name_of(transport), median(without), median(with), pairs, median(ratio), ratio.front(), ratio.back());
  std::fflush(stdout);
}

}  // namespace tendril::bench
