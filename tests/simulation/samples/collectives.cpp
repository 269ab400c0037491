// Process groups of random members: reductions, broadcasts, gathers and barriers.
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"

namespace simulated::collectives {

using namespace std::chrono_literals;
using namespace tendril;

constexpr int kWorkers = 4;

bool must_succeed = false;  // no worker is lost, and no message is late

/// What member `rank` contributes to step `step`.
Tensor contribution(WorkerId rank, int64_t step, int64_t size) {
  return full({size}, static_cast<double>(step * 10 + rank), kFloat64);
}

void expect(const Tensor& got, double value, const char* what) {
  if (corrupts(faults_now())) return;
  if (!(got == value).all().item<bool>())
    problem(std::string(what) + ": got " + std::to_string(got.min().item<double>()) + " to " +
            std::to_string(got.max().item<double>()) + ", expected " + std::to_string(value));
}

/// Runs one operation. It is the same at all members, because they draw it from the same seed.
void step(dist::ProcessGroup& group, const std::vector<WorkerId>& members, WorkerId rank, int64_t number,
          Random& random) {
  const auto size = static_cast<int64_t>(members.size()) * static_cast<int64_t>(random.between(1, 2000));
  const dist::CollectiveOptions options{.timeout = std::chrono::milliseconds(random.between(2000, 10'000))};
  double sum = 0;
  for (const WorkerId one : members) sum += static_cast<double>(number * 10 + one);
  switch (random.below(5)) {
    case 0: {
      const Tensor x = contribution(rank, number, size);
      group.all_reduce(x, dist::ReduceOp::sum, options);
      return expect(x, sum, "all_reduce");
    }
    case 1: {
      const auto root = static_cast<int>(random.below(members.size()));
      const Tensor x = contribution(rank, number, size);
      group.broadcast(x, root, options);
      return expect(x, static_cast<double>(number * 10 + members[static_cast<std::size_t>(root)]), "broadcast");
    }
    case 2: {
      const std::vector<Tensor> all = group.all_gather(contribution(rank, number, size), options);
      for (std::size_t i = 0; i < members.size(); ++i)
        expect(all.at(i), static_cast<double>(number * 10 + members[i]), "all_gather");
      return;
    }
    case 3:
      return expect(group.reduce_scatter(contribution(rank, number, size), dist::ReduceOp::sum, options), sum,
                    "reduce_scatter");
    default:
      return group.barrier(options);
  }
}

void run(WorkerId rank) {
  Random own = random_of(rank);
  join(rank);
  Random shared = random_of_seed();
  for (int64_t round = 0; round < 3; ++round) {
    Random plan = shared.split();
    const std::vector<WorkerId> members = random_members(plan, kWorkers, 0.75);
    if (std::find(members.begin(), members.end(), rank) == members.end()) continue;
    try {
      dist::ProcessGroup group(names_of(members), {.tag = std::to_string(round), .timeout = 10s, .chunk_bytes = 4096});
      for (int64_t number = 0; number < 6; ++number) {
        if (own.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(own.below(200)));
        step(group, members, rank, number, plan);
      }
    } catch (const rpc::RpcError& e) {
      if (must_succeed) problem("rank " + std::to_string(rank) + ", round " + std::to_string(round) + ": " + e.what());
    } catch (const Error&) {  // a corrupted shape
      if (!corrupts(faults_now())) throw;
    }
  }
  rpc::shutdown({.timeout = 60s, .accept_losses = true});
}

const bool added =
    add({.name = "collectives",
         .world_size = kWorkers,
         .begin = [](uint64_t seed) { must_succeed = harmless(faults_of(seed)) && !faults_of(seed).long_delay; },
         .run = run,
         .check = check_all_returned});

}  // namespace simulated::collectives
