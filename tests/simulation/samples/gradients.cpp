// Random functions computed by several workers: their gradients must equal those of local autograd.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/context.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/launch.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tendril/tensor/detail/switched_variable.h"
#include "tests/simulation/workload.h"

namespace simulated::gradients {

using namespace std::chrono_literals;
using namespace tendril;

constexpr int kWorkers = 4;

/// Returns the parameter of worker `rank`: the same values on every worker.
Tensor parameter(int64_t rank) {
  Random random(static_cast<uint64_t>(rank) + 77);
  std::vector<double> values;
  for (int i = 0; i < 4; ++i) values.push_back(random.unit() * 2 - 1);
  return tensor(values, {.dtype = kFloat64, .requires_grad = true});
}

/// The state of one worker.
struct Own {
  Tensor parameter;
};
Own& own() {
  static Own own;
  return own;
}
const auto own_switched = tendril::detail::of_each_process([]() -> auto& { return own(); });

/// Computes the function that a seed defines. Calls `at(rank, x, depth, seed)` for the parts of other workers.
template <class At>
Tensor compute(const Tensor& x, const Tensor& w, int64_t depth, uint64_t seed, const At& at) {
  Random random(seed);
  Tensor y = random.chance(0.5) ? (x * w).tanh() : x + w * w;
  for (uint64_t i = random.below(3); depth > 0 && i > 0; --i) {
    const Tensor part = at(static_cast<int64_t>(random.below(kWorkers)), y, depth - 1, random.bits() >> 1);
    y = random.chance(0.5) ? y * part : y + part.sin();
  }
  return y;
}

Tensor stage(const Tensor& x, int64_t depth, int64_t seed) {
  return compute(x, own().parameter, std::clamp<int64_t>(depth, 0, 3), static_cast<uint64_t>(seed),
                 [](int64_t rank, const Tensor& part, int64_t left, uint64_t next) {
                   return rpc::rpc_sync<&stage>(static_cast<WorkerId>(rank), rpc::CallOptions{.timeout = 10s}, part,
                                                left, static_cast<int64_t>(next));
                 });
}

Tensor local_stage(const std::vector<Tensor>& parameters, int64_t rank, const Tensor& x, int64_t depth, uint64_t seed) {
  return compute(x, parameters[static_cast<std::size_t>(rank)], depth, seed,
                 [&](int64_t next_rank, const Tensor& part, int64_t left, uint64_t next) {
                   return local_stage(parameters, next_rank, part, left, next);
                 });
}

Tensor gradient_here(int64_t context) {
  const Tensor found =
      dist::autograd::get_gradients(static_cast<dist::autograd::ContextId>(context)).find(own().parameter);
  return found.defined() ? found : zeros({4}, kFloat64);
}

void compare(const Tensor& got, const Tensor& expected, const std::string& what) {
  const double difference = (got - expected).abs().max().item<double>(), size = expected.abs().max().item<double>();
  if (!(difference <= 1e-12 * (1 + size))) value_problem(what + " is wrong by " + std::to_string(difference));
}

void round(Random& random) {
  const auto depth = static_cast<int64_t>(random.between(1, 3));
  const uint64_t seed = random.bits() >> 1;
  const auto mode = random.chance(0.5) ? dist::autograd::Mode::smart : dist::autograd::Mode::fast;
  const auto self = static_cast<int64_t>(rpc::get_worker_info().id);
  const Tensor x = tensor(std::vector<double>{0.3, -0.7, 1.1, 0.2});

  std::vector<Tensor> parameters;
  for (int64_t rank = 0; rank < kWorkers; ++rank) parameters.push_back(parameter(rank));
  local_stage(parameters, self, x, depth, seed).sum().backward();

  const dist::autograd::Context context;
  const Tensor loss = stage(x, depth, static_cast<int64_t>(seed)).sum();
  dist::autograd::backward(context, {loss}, {.mode = mode, .timeout = 20s});
  for (int64_t rank = 0; rank < kWorkers; ++rank) {
    const Tensor got = rpc::rpc_sync<&gradient_here>(static_cast<WorkerId>(rank), rpc::CallOptions{.timeout = 10s},
                                                     static_cast<int64_t>(context.id()));
    const Tensor wanted = parameters[static_cast<std::size_t>(rank)].grad();
    compare(got, wanted.defined() ? wanted : zeros({4}, kFloat64), "the gradient of rank " + std::to_string(rank));
  }
}

bool peaceful = false;  // a failure is a problem

/// Once faults have stopped and all workers are members, every round must succeed, also on a restarted worker.
void peaceful_rounds(Random& random) {
  if (!peaceful) return;
  try {
    (void)rpc::rpc_sync<&gradient_here>(0, rpc::CallOptions{.timeout = 5s}, int64_t{0});
  } catch (const rpc::RemoteError&) {  // rank 0 answers that there is no such context
  } catch (const rpc::RpcError&) {
    return;  // rank 0 has lost this worker
  }
  if (rpc::group_view().alive().size() != kWorkers) return;
  for (int i = 0; i < 2; ++i) try {
      round(random);
    } catch (const std::exception& e) {
      if (rpc::group_view().alive().size() == kWorkers)
        problem("rank " + std::to_string(rpc::get_worker_info().id) +
                " has no gradients although faults have stopped: " + e.what());
    }
}

void run(WorkerId rank) {
  Random random = random_of(rank);
  own().parameter = parameter(rank);
  rpc::init_rpc("w" + std::to_string(rank), options_of_seed());
  for (int i = 0; i < 4; ++i) try {
      rpc::sleep_for(std::chrono::milliseconds(random.below(200)));
      round(random);
    } catch (const rpc::RpcError&) {  // a worker is lost, or too late
    } catch (const AutogradError&) {  // a restarted worker does not know the context
    } catch (const Error&) {          // a corrupted shape
      if (!corrupts(faults_now())) throw;
    }
  wait_for_quiet();
  peaceful_rounds(random);
  rpc::shutdown({.timeout = 30s, .accept_losses = true});
}

const bool added = add({.name = "gradients",
                        .world_size = kWorkers,
                        .begin =
                            [](uint64_t seed) {
                              const Faults faults = faults_of(seed);
                              peaceful = !clocks_are_wrong(faults) && !faults.include_rank_0 && !corrupts(faults);
                            },
                        .run = run,
                        .check = check_all_returned});

}  // namespace simulated::gradients
