// Programs that train together until one of them is killed: training_scenarios NAME ... (tests/dist says of each)
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/checkpoint/checkpoint.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/dist/nn/data_parallel.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/rpc/group.h"
#include "tendril/tensor/creation.h"

namespace rpc = tendril::rpc;
namespace dist = tendril::dist;
using namespace tendril;
using namespace std::chrono_literals;

namespace training_scenarios {

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}
std::string name_of(int rank) { return std::string("w").append(std::to_string(rank)); }

/// Data-parallel training with a checkpoint after each step, which goes on from one that is there.
void train(int rank, int size, const std::filesystem::path& folder, int64_t steps) {
  rpc::init_rpc(name_of(rank));
  {
    std::vector<std::string> names;
    for (int r = 0; r < size; ++r) names.push_back(name_of(r));
    dist::ProcessGroup group(names);
    Generator same(1), mine(static_cast<uint64_t>(rank) + 2);
    nn::Linear model(6, 3, {.generator = same});
    optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    int64_t step = 0;
    double seen = 0;  // by this worker
    const dist::WorkerParts parts{.shared = {{"model", model}, {"optimizer", sgd}, {"step", step}},
                                  .each = {{"generator", mine}, {"seen", seen}}};
    if (dist::has_checkpoint(folder)) dist::load_checkpoint(group, folder, parts);
    dist::DistributedDataParallel ddp(model, group);
    while (step < steps) {
      const Tensor x = randn({4, 6}, mine);
      sgd.zero_grad();
      const Tensor loss = (model(x) - x.slice(1, 0, 3)).square().mean();
      ddp.backward(loss);
      sgd.step();
      seen += loss.item<double>();
      ++step;
      say("saving");
      dist::save_checkpoint(group, folder, parts);
    }
  }
  rpc::shutdown();
}

}  // namespace training_scenarios
using namespace training_scenarios;

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  try {
    const int rank = std::atoi(std::getenv("RANK")), size = std::atoi(std::getenv("WORLD_SIZE"));
    if (name == "train" && argc == 4) {
      train(rank, size, argv[2], std::atoll(argv[3]));
    } else {
      throw std::invalid_argument("no scenario '" + name + "'");
    }
    say("done");
  } catch (const std::exception& e) {
    say(std::string("error: ") + e.what());
    std::_Exit(3);  // without the workers that are gone
  }
  return 0;
}
