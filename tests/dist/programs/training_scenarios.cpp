// Programs that train together until one of them is killed: training_scenarios NAME ... (started by tests/dist)
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/checkpoint/checkpoint.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/dist/nn/data_parallel.h"
#include "tendril/dist/pipeline/pipeline.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/rpc/group.h"
#include "tendril/tensor/creation.h"
#include "tests/file_calls.h"
#include "tests/seed.h"

namespace rpc = tendril::rpc;
namespace dist = tendril::dist;
namespace pp = tendril::dist::pipeline;
using namespace tendril;
using namespace std::chrono_literals;
using tendril::testing::test_seed;

namespace training_scenarios {

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}
std::string name_of(int rank) { return std::string("w").append(std::to_string(rank)); }

/// Data-parallel training with a checkpoint after each step. Continues from an existing checkpoint of any number of
/// workers.
void train(int rank, int size, const std::filesystem::path& folder, int64_t steps) {
  rpc::init_rpc(name_of(rank));
  {
    std::vector<std::string> names;
    for (int r = 0; r < size; ++r) names.push_back(name_of(r));
    dist::ProcessGroup group(names);
    Generator same(test_seed()), mine(test_seed(static_cast<uint64_t>(rank) + 1));
    nn::Linear model(6, 3, {.generator = same});
    optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    int64_t step = 0;
    double seen = 0;  // total loss of this worker
    const dist::WorkerParts parts{.shared = {{"model", model}, {"optimizer", sgd}, {"step", step}},
                                  .each = {{"generator", mine}, {"seen", seen}}};
    if (dist::has_checkpoint(folder)) dist::load_checkpoint(group, folder, parts, {.each_may_stay = true});
    dist::DistributedDataParallel ddp(model, group);
    while (step < steps) {
      const Tensor x = randn({4, 6}, mine);
      sgd.zero_grad();
      const Tensor loss = (model(x) - x.slice(1, 0, 3)).square().mean();
      ddp.backward(loss);
      sgd.step();
      seen += loss.item<double>();
      ++step;
      dist::save_checkpoint(group, folder, parts);
    }
  }
  rpc::shutdown();
}

/// A pipeline stage that may kill its process at its third micro-batch.
struct Part : nn::Module {
  Part(int64_t seed, bool in_forward, bool in_backward)
      : generator(test_seed(static_cast<uint64_t>(seed))),
        linear(4, 4, {.generator = generator}),
        dies_in_forward(in_forward),
        dies_in_backward(in_backward) {
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x) {
    const bool now = ++calls == 3;
    if (now && dies_in_forward) ::raise(SIGKILL);
    Tensor y = linear(x).tanh();
    if (now && dies_in_backward) {
      autograd::register_hook(y, [](const Tensor&) -> Tensor {
        ::raise(SIGKILL);
        return {};
      });
    }
    return y;
  }
  Generator generator;
  nn::Linear linear;
  bool dies_in_forward, dies_in_backward;
  int calls = 0;
};
Tensor mean_square(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }

double train_batch(const std::vector<std::string>& workers, bool in_forward, bool in_backward, int dies) {
  rpc::Agent& agent = *rpc::default_agent();
  std::vector<rpc::RRef<pp::Stage>> stages;
  const int count = static_cast<int>(workers.size());
  for (int s = 0; s < count; ++s) {
    const bool it = s == dies;
    const std::string& to = workers[static_cast<std::size_t>(s)];
    stages.push_back(s + 1 < count ? pp::make_stage<Part>(agent, to, int64_t{s}, it && in_forward, it && in_backward)
                                   : pp::make_loss_stage<Part, &mean_square>(agent, to, int64_t{s}, false, false));
  }
  pp::Pipeline pipeline(agent, stages, pp::one_forward_one_backward(count, 6));
  const dist::autograd::Context context;
  return pipeline.train(context, ones({12, 4}), zeros({12, 4}));
}

/// w0 trains on three workers, of which the middle one dies during a batch, and then on the two that remain.
void lose_a_stage(int rank, bool in_forward) {
  rpc::init_rpc(name_of(rank));
  if (rank == 0) {
    const auto start = std::chrono::steady_clock::now();
    try {
      train_batch({"w1", "w2", "w3"}, in_forward, !in_forward, 1);
      say("no error");
    } catch (const rpc::RpcError& e) {
      say(std::string("RpcError: ") + e.what());
    }
    say(std::chrono::steady_clock::now() - start < 60s ? "in time" : "late");  // the pipeline's timeout is 10 minutes
    say(train_batch({"w1", "w3"}, false, false, -1) > 0 ? "continues" : "no loss");
  }
  rpc::shutdown({.accept_losses = true});
}

}  // namespace training_scenarios
using namespace training_scenarios;

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  try {
    const int rank = std::atoi(std::getenv("RANK")), size = std::atoi(std::getenv("WORLD_SIZE"));
    if (name == "train" && argc == 4) {
      train(rank, size, argv[2], std::atoll(argv[3]));
    } else if (name == "stage_killed_in_forward" || name == "stage_killed_in_backward") {
      lose_a_stage(rank, name == "stage_killed_in_forward");
    } else {
      throw std::invalid_argument("no scenario '" + name + "'");
    }
    say("done");
  } catch (const std::exception& e) {
    say(std::string("error: ") + e.what());
    std::_Exit(3);  // does not wait for lost workers
  }
  return 0;
}
