// What one iteration of the RNN tutorial costs in messages, bytes and time over distributed autograd: two calls
// forward, backward, release. Beside it, as many round trips of as many bytes on a bare socket, and the same network in
// one process. The optimizer's step, one more round trip, is left out.
//
//     bench_dist [--pin one|none] [--quick]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/flags.h"
#include "bench/rpc/raw.h"
#include "bench/rpc/server.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/nn/embedding.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/rpc/call.h"
#include "tendril/tensor/creation.h"

using namespace tendril;
using dist::autograd::Mode;

namespace iteration {

// The tutorial's sizes.
constexpr int64_t kSteps = 5, kBatch = 5, kTokens = 10, kInput = 2, kHidden = 3, kLayers = 4;

nn::Embedding& table() {
  static nn::Embedding embedding(kTokens, kInput);
  return embedding;
}
nn::Linear& decoder() {
  static nn::Linear linear(kHidden, kTokens);
  return linear;
}

// What the server serves.
Tensor embed(const Tensor& tokens) { return table()(tokens); }
Tensor decode(const Tensor& h) { return decoder()(h).flatten(0, 1); }
Tensor count(const Tensor& h) { return h.sum(); }

}  // namespace iteration
using namespace iteration;

namespace {

struct Options {
  bool one_core = false;
  int rounds = 3000;
};

/// The trainer's part, and its input.
struct Trainer {
  nn::LSTM lstm{kInput, kHidden, {.num_layers = kLayers}};
  Tensor tokens = randint(0, kTokens, {kSteps, kBatch});
  Tensor targets = randint(0, kTokens, {kSteps * kBatch});
};

double median_micros(int rounds, const std::function<void()>& run) {
  std::vector<double> micros;
  for (int i = -rounds / 10; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const auto took = std::chrono::steady_clock::now() - start;
    if (i >= 0) micros.push_back(std::chrono::duration<double, std::micro>(took).count());
  }
  std::sort(micros.begin(), micros.end());
  return bench::median(micros);
}

void row(const Options& options, const char* label, Mode mode, bool with_unused) {
  const int client_cpu = options.one_core ? 0 : -1, server_cpu = options.one_core ? 0 : -1;
  double micros = 0, messages = 0, bytes = 0;
  {
    bench::Server server(bench::Transport::unix_socket, client_cpu, server_cpu,
                         [](rpc::Agent& agent) { dist::autograd::Container::attach(agent); });
    rpc::Agent& agent = server.agent();
    const Trainer trainer;
    const auto run = [&] {
      const dist::autograd::Context context(agent);
      const Tensor emb = rpc::rpc_sync<&embed>(agent, 1, trainer.tokens);
      if (with_unused) rpc::rpc_sync<&count>(agent, 1, emb);
      const Tensor scores = rpc::rpc_sync<&decode>(agent, 1, trainer.lstm(emb).output);
      dist::autograd::backward(context, {cross_entropy(scores, trainer.targets)}, {.mode = mode});
    };
    const auto rounds = static_cast<double>(options.rounds);
    micros = median_micros(options.rounds, run);
    const rpc::Metrics before = agent.metrics();
    for (int i = 0; i < options.rounds; ++i) run();
    while (agent.metrics().pending_calls > 0) std::this_thread::yield();  // releases are not waited for
    const rpc::Metrics after = agent.metrics();
    const auto requests =
        after.requests_sent - before.requests_sent + after.requests_received - before.requests_received;
    messages = 2 * static_cast<double>(requests) / rounds;
    bytes = static_cast<double>(after.bytes_sent - before.bytes_sent + after.bytes_received - before.bytes_received) /
            rounds;
  }
  const double trips = messages / 2;
  const auto size = static_cast<std::size_t>(bytes / messages);
  const double raw = trips * bench::median(bench::play({.request_bytes = size,
                                                        .reply_bytes = size,
                                                        .client_cpu = client_cpu,
                                                        .server_cpu = server_cpu,
                                                        .rounds = 5 * options.rounds}));
  std::printf("| %s | %.1f | %.0f | %.1f | %.1f | %.1f | %.2f |\n", label, messages, bytes, trips, micros, raw,
              micros / raw);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bool quick = false;
  std::string pin = "none";
  CLI::App app("An iteration of the RNN tutorial");
  bench::add_pin(app, pin, {"one", "none"});
  bench::add_quick(app, quick);
  CLI11_PARSE(app, argc, argv);
  if (quick) options.rounds = 300;
  options.one_core = pin == "one";
  std::printf("Unix socket, %s\n\n", options.one_core ? "one core" : "not pinned");
  std::printf(
      "| iteration | messages | bytes | round trips | us | raw round trips, us | ratio "
      "|\n|---|---|---|---|---|---|---|\n");
  row(options, "FAST", Mode::fast, false);
  row(options, "SMART", Mode::smart, false);
  row(options, "SMART, one output unused", Mode::smart, true);
  const Trainer trainer;
  const double local = median_micros(options.rounds, [&] {
    cross_entropy(decode(trainer.lstm(embed(trainer.tokens)).output), trainer.targets).backward();
  });
  std::printf("| one process | 0 | 0 | 0 | %.1f | | |\n", local);
}
