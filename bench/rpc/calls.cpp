// Calls between two real processes, beside raw ping-pongs of the same bytes over the same transport in the same run.
//
//     bench_rpc [--pin one|two|none] [--quick] [--only SIZE]
//         SIZE may be "crowded", "disturbed", "traced" or "compared": see their headers.
//     bench_rpc [--pin one|two|none] --calls N [--trace]
//         N empty calls over a Unix socket and nothing else, for profilers; --trace: recorded at both workers.
//
// "one": both processes on core 0; "two": on cores 0 and 1. Ratios are against epoll for empty calls (both must wait
// for a socket) and against the better of blocking and epoll for tensors.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "bench/rpc/compared.h"
#include "bench/rpc/crowded.h"
#include "bench/rpc/disturbed.h"
#include "bench/rpc/raw.h"
#include "bench/rpc/server.h"
#include "bench/rpc/timed_calls.h"
#include "bench/rpc/traced.h"
#include "tendril/rpc/agent.h"
#include "tendril/tensor/raw.h"

namespace {

using namespace tendril;

struct Options {
  std::string pin = "none";
  bool quick = false;
  std::string only;  // one size, "empty" say
  int calls = 0;
  bool trace = false;
};

int server_cpu(const Options& options) { return options.pin == "two" ? 1 : options.pin == "one" ? 0 : -1; }
int client_cpu(const Options& options) { return options.pin == "none" ? -1 : 0; }

std::vector<double> time_each(int rounds, const std::function<void()>& call) {
  std::vector<double> micros;
  for (int i = -rounds / 10; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call();
    const double took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    if (i >= 0) micros.push_back(took);
  }
  std::sort(micros.begin(), micros.end());
  return micros;
}

struct Size {
  const char* name;
  std::size_t bytes;
  int rounds;
};
const std::array<Size, 6> kSizes{{{"empty", 0, 20000},
                                  {"1 KB", 1 << 10, 10000},
                                  {"64 KB", 64 << 10, 5000},
                                  {"1 MB", 1 << 20, 1000},
                                  {"16 MB", 16 << 20, 60},
                                  {"64 MB", 64 << 20, 20}}};

void row(bench::Transport transport, const Options& options) {
  if (options.only == "crowded") {
    return bench::print_crowded(transport, client_cpu(options), server_cpu(options), options.quick);
  }
  if (options.only == "disturbed") {
    return bench::print_disturbed(transport, client_cpu(options), server_cpu(options), options.quick ? 1 : 5);
  }
  if (options.only == "traced") {
    return bench::print_traced(transport, client_cpu(options), server_cpu(options), options.quick ? 5 : 15);
  }
  if (options.only == "compared") {
    return bench::print_compared(transport, client_cpu(options), server_cpu(options), options.quick ? 1 : 3);
  }
  std::printf("\n%s, %s\n", bench::name_of(transport),
              options.pin == "none"  ? "not pinned"
              : options.pin == "one" ? "one core"
                                     : "two cores");
  std::printf("%-6s | %9s %9s %9s | %9s %9s | %9s %9s | %s\n", "", "blocking", "epoll", "spinning", "warm", "fresh",
              "rpc p50", "rpc p99", "ratio");
  for (const Size& size : kSizes) {
    if (!options.only.empty() && options.only != size.name) continue;
    const int rounds = options.quick ? std::max(5, size.rounds / 10) : size.rounds;
    // The frame around the payload: header and descriptors.
    const std::size_t bytes = size.bytes + (size.bytes == 0 ? 112 : 192);
    const auto raw = [&](bench::Waiting waiting, bench::Buffers buffers) {
      return bench::median(bench::play({.transport = transport,
                                        .waiting = waiting,
                                        .buffers = buffers,
                                        .request_bytes = bytes,
                                        .reply_bytes = bytes,
                                        .client_cpu = client_cpu(options),
                                        .server_cpu = server_cpu(options),
                                        .rounds = rounds}));
    };
    const double blocking = raw(bench::Waiting::blocking, bench::Buffers::warm);
    const double epoll = raw(bench::Waiting::epoll, bench::Buffers::warm);
    // Two processes that spin on one core only wait for each other's time slice to end.
    const bool spins = options.pin != "one";
    const double spinning = spins ? raw(bench::Waiting::spinning, bench::Buffers::warm) : 0;
    const double warm = std::min(blocking, epoll);
    const double fresh = size.bytes >= (64 << 10) ? raw(bench::Waiting::blocking, bench::Buffers::fresh) : 0;
    std::vector<double> micros;
    {
      bench::Server server(transport, client_cpu(options), server_cpu(options));
      if (size.bytes == 0) {
        micros = time_each(rounds, [&] { bench::call_nothing(server.agent()); });
      } else {
        const Tensor x = raw::full({static_cast<int64_t>(size.bytes / 4)}, 1.0);
        micros = time_each(rounds, [&] { bench::call_echo(server.agent(), x); });
      }
    }
    const double p50 = bench::median(micros);
    std::printf("%-6s | %9.1f %9.1f %9.1f | %9.1f %9.1f | %9.1f %9.1f | %.2f of %s", size.name, blocking, epoll,
                spinning, warm, fresh, p50, bench::percentile(micros, 0.99), p50 / (size.bytes == 0 ? epoll : warm),
                size.bytes == 0 ? "epoll" : "warm");
    if (fresh > 0) std::printf(", %.2f of fresh", p50 / fresh);
    std::printf("\n");
    std::fflush(stdout);
  }
  bench::Server server(transport, client_cpu(options), server_cpu(options));
  for (const int in_flight : {1, 10, 100}) {
    bench::calls_per_second(server.agent(), in_flight, 0.2);
    std::printf("%3d in flight: %.0f calls/s\n", in_flight,
                bench::calls_per_second(server.agent(), in_flight, options.quick ? 0.5 : 3));
  }
  if (options.only.empty()) {
    bench::print_disturbed(transport, client_cpu(options), server_cpu(options), options.quick ? 1 : 5);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Calls beside hand-written ping-pongs of the same bytes");
  bench::add_pin(app, options.pin, {"one", "two", "none"});
  bench::add_quick(app, options.quick);
  std::vector<std::string> parts{"compared", "crowded", "disturbed", "traced"};
  for (const Size& size : kSizes) parts.emplace_back(size.name);
  app.add_option("--only", options.only, "Only this size or comparison")->check(CLI::IsMember(parts));
  app.add_option("--calls", options.calls, "So many empty calls, and nothing else")->check(CLI::Range(1, 1'000'000));
  app.add_flag("--trace", options.trace, "... with a trace");
  CLI11_PARSE(app, argc, argv);
  if (options.calls > 0) {
    // Without polling: how often a leader looks is a matter of time.
    const auto prepare = [&](rpc::Agent& agent) {
      if (options.trace) bench::trace(agent);
    };
    bench::Server server(bench::Transport::unix_socket, client_cpu(options), server_cpu(options), prepare,
                         {.world_size = 2, .max_spin = std::chrono::microseconds(0)});
    for (int i = 0; i < options.calls; ++i) bench::call_nothing(server.agent());
    return 0;
  }
  if (options.only != "compared") std::printf("Round trips in microseconds, medians unless stated\n");
  row(bench::Transport::unix_socket, options);
  row(bench::Transport::tcp, options);
  row(bench::Transport::tls, options);
}
