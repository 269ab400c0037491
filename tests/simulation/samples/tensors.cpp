// Tensors that are changed in place once a call has ended: a handler receives the elements that were sent.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"

namespace simulated::tensors {

using namespace std::chrono_literals;
using namespace tendril;

constexpr int kWorkers = 3;

/// Checks that all elements are equal to `value`, and returns the tensor.
Tensor echo(const Tensor& x, int64_t value) {
  const double least = x.min().item<double>(), most = x.max().item<double>();
  if (least != static_cast<double>(value) || most != least)
    value_problem("a handler got elements from " + std::to_string(least) + " to " + std::to_string(most) +
                  ", but the caller sent " + std::to_string(value));
  return x;
}

/// One thread's calls, all with the same tensor.
void calls(Random random) {
  const Tensor x = zeros({static_cast<int64_t>(random.between(1, random.chance(0.5) ? 100 : 100'000))}, kFloat64);
  for (int64_t value = 1; value <= 20; ++value) {
    const auto to = static_cast<WorkerId>(
        (rpc::get_worker_info().id + 1 + static_cast<WorkerId>(random.below(kWorkers - 1))) % kWorkers);
    const auto timeout = std::chrono::milliseconds(random.between(1, random.chance(0.5) ? 20 : 2000));
    x.fill_(static_cast<double>(value));
    try {
      const Tensor got = rpc::rpc_sync<&echo>(to, rpc::CallOptions{.timeout = timeout}, x, value);
      if (!got.equal(x)) value_problem("a call returned other elements than it was sent");
    } catch (const rpc::RpcError&) {
    }
    if (random.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(random.below(200)));
  }
}

void run(WorkerId rank) {
  Random random = random_of(rank);
  join(rank);
  {
    const AtWork here;
    std::vector<rpc::detail::Thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back("caller", [own = random.split()] { calls(own); });
    for (auto& thread : threads) thread.join();
  }
  wait_for_others();
  leave(rank, 30s);
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  check_leaving(report, faults);
}

const bool added =
    add({.name = "tensors", .world_size = kWorkers, .begin = [](uint64_t) {}, .run = run, .check = check});

}  // namespace simulated::tensors
