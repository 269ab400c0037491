// Replicas of a model on random members, whose averaged gradients must equal those of one process with the whole batch.
#include "tendril/dist/nn/data_parallel.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"

namespace simulated::data_parallel {

using namespace std::chrono_literals;
using namespace tendril;

constexpr int kWorkers = 3;
constexpr int64_t kRows = 2, kColumns = 4;  // of each member's part of a batch

bool must_succeed = false;  // no worker is lost, and no message is late

struct Net : nn::Module {
  explicit Net(uint64_t seed)
      : generator(seed),
        first(kColumns, 6, {.dtype = kFloat64, .generator = generator}),
        second(6, 5, {.dtype = kFloat64, .generator = generator}),
        third(5, 1, {.dtype = kFloat64, .generator = generator}) {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
  }
  Tensor loss(const Tensor& x, bool skip_second) const {
    const Tensor h = first(x).tanh();
    return third(skip_second ? h.narrow(1, 0, 5) : second(h).tanh()).square().mean();
  }
  Generator generator;
  nn::Linear first, second, third;
};

bool is_close(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && (a - b).abs().max().item<double>() <= 1e-12 * (1 + b.abs().max().item<double>());
}

/// Compares with the reference. Undefined gradients, of parameters that no member used, must be undefined in both.
void check_gradients(const Net& mine, const Net& whole, const std::string& when) {
  if (corrupts(faults_now())) return;
  const auto got = mine.parameters(), expected = whole.parameters();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Tensor a = got[i].grad(), b = expected[i].grad();
    if (a.defined() != b.defined())
      problem(when + ": the gradient of parameter " + std::to_string(i) + (a.defined() ? " is" : " is not") + " there");
    else if (a.defined() && !is_close(a, b))
      problem(when + ": the gradient of parameter " + std::to_string(i) + " is wrong");
  }
}

/// `plan` is the same at all members.
void train(dist::ProcessGroup& group, std::size_t position, std::size_t size, Random& plan, Random& own) {
  const uint64_t first_seed = plan.bits();
  Net whole(first_seed), mine(first_seed + position);  // the first member's parameters are copied to the others
  const bool may_skip = plan.chance(0.5);
  dist::DistributedDataParallel ddp(mine, group,
                                    {.bucket_bytes = std::size_t{1} << plan.below(12),
                                     .find_unused_parameters = may_skip,
                                     .collectives = {.timeout = 10s}});
  optim::SGD sgd(mine.parameters(), {.lr = 0.1, .momentum = 0.9}),
      reference(whole.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 5; ++step) {
    const Tensor batch = [&] {
      Generator generator(plan.bits());
      return randn({static_cast<int64_t>(size) * kRows, kColumns}, generator, {.dtype = kFloat64});
    }();
    std::vector<bool> skip;
    for (std::size_t i = 0; i < size; ++i) skip.push_back(may_skip && plan.chance(0.5));
    const auto part = [&](std::size_t i) { return batch.narrow(0, static_cast<int64_t>(i) * kRows, kRows); };

    sgd.zero_grad();
    reference.zero_grad();
    if (own.chance(0.3)) rpc::sleep_for(std::chrono::milliseconds(own.below(200)));
    ddp.backward(mine.loss(part(position), skip[position]));
    for (std::size_t i = 0; i < size; ++i) (whole.loss(part(i), skip[i]) / static_cast<double>(size)).backward();
    check_gradients(mine, whole, "member " + std::to_string(position) + ", step " + std::to_string(step));
    sgd.step();
    reference.step();
  }
}

void run(WorkerId rank) {
  Random own = random_of(rank);
  join(rank);
  Random shared = random_of_seed();
  for (int64_t round = 0; round < 2; ++round) {
    Random plan = shared.split();
    const std::vector<WorkerId> members = random_members(plan, kWorkers, 0.85);
    const auto at = std::find(members.begin(), members.end(), rank);
    if (at == members.end()) continue;
    try {
      dist::ProcessGroup group(names_of(members), {.tag = std::to_string(round), .timeout = 10s, .chunk_bytes = 64});
      train(group, static_cast<std::size_t>(at - members.begin()), members.size(), plan, own);
    } catch (const rpc::RpcError& e) {
      if (must_succeed) problem("rank " + std::to_string(rank) + ", round " + std::to_string(round) + ": " + e.what());
    } catch (const Error&) {  // a corrupted shape
      if (!corrupts(faults_now())) throw;
    }
  }
  rpc::shutdown({.timeout = 60s, .accept_losses = true});
}

const bool added =
    add({.name = "data_parallel",
         .world_size = kWorkers,
         .begin = [](uint64_t seed) { must_succeed = harmless(faults_of(seed)) && !faults_of(seed).long_delay; },
         .run = run,
         .check = check_all_returned});

}  // namespace simulated::data_parallel
