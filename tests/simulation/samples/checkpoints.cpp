// Workers that train in step, save checkpoints into a shared folder, and resume from them after a loss. A resumed run
// must load one complete save, at least as recent as the last one that succeeded anywhere. The files are real.
#include "tendril/dist/checkpoint/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tendril.h"
#include "tests/simulation/workload.h"
#include "tests/temporary_folder.h"

namespace simulated::checkpoints {

using namespace std::chrono_literals;
using namespace tendril;

constexpr int kWorkers = 3;

bool must_succeed = false;  // no worker is lost, and no message is late
std::unique_ptr<testing::TemporaryFolder> folder;
int64_t last_begun = 0, last_saved = 0;  // steps

/// A module with one parameter, all of whose elements are equal.
struct Value : nn::Module {
  Value() { register_parameter("tensor", tensor); }
  void set(int64_t number) {
    const NoGradGuard no_grad;
    tensor.fill_(static_cast<double>(number));
  }
  bool is(int64_t number) const { return (tensor == static_cast<double>(number)).all().item<bool>(); }
  Tensor tensor = zeros({5}, kFloat64);
};

/// The state of one worker at a step: everything in it is a function of the step and the rank.
struct State {
  int64_t step = 0;
  Value model, stage;
  double seen = 0;

  void advance(WorkerId rank) {
    ++step;
    model.set(step);
    stage.set(step * 10 + rank);
    seen = static_cast<double>(step * 100 + rank);
  }
  bool is_whole(WorkerId rank) const {
    return model.is(step) && stage.is(step * 10 + rank) && seen == static_cast<double>(step * 100 + rank);
  }
  dist::WorkerParts parts(WorkerId rank) {
    return {.shared = {{"model", model}, {"step", step}},
            .own = {{"stage" + std::to_string(rank), stage}},
            .each = {{"seen", seen}}};
  }
};

void load(dist::ProcessGroup& group, WorkerId rank, State& state, const dist::CheckpointOptions& options) {
  const int64_t saved = last_saved;
  dist::load_checkpoint(group, folder->path(), state.parts(rank), options);
  if (corrupts(faults_now())) return;
  const std::string at = "rank " + std::to_string(rank) + " loaded step " + std::to_string(state.step);
  if (!state.is_whole(rank)) problem(at + " with parts of another step");
  if (state.step < saved) problem(at + " although step " + std::to_string(saved) + " had been saved");
  if (state.step > last_begun) problem(at + ", which was never saved");
}

/// Tries again while other members still use the previous group.
std::unique_ptr<dist::ProcessGroup> make_group() {
  for (int i = 0;; ++i) try {
      return std::make_unique<dist::ProcessGroup>(std::vector<std::string>{"w0", "w1", "w2"},
                                                  dist::ProcessGroup::Options{.timeout = 5s});
    } catch (const dist::CollectiveError&) {
      if (i == 50) throw;
      rpc::sleep_for(100ms);
    }
}

/// Resumes, and trains for some steps. `plan` is the same at all members.
void train(WorkerId rank, Random& own) {
  const auto made = make_group();
  dist::ProcessGroup& group = *made;
  State state;
  const dist::CheckpointOptions options{.timeout = std::chrono::milliseconds(5000)};
  if (last_saved > 0 || dist::has_checkpoint(folder->path())) load(group, rank, state, options);
  Random plan(random_of_seed().bits() + static_cast<uint64_t>(state.step));
  for (int i = 0; i < 6; ++i) {
    state.advance(rank);
    if (own.chance(0.2)) rpc::sleep_for(std::chrono::milliseconds(own.below(500)));
    if (i < 5 && plan.chance(0.5)) continue;
    last_begun = std::max(last_begun, state.step);
    dist::save_checkpoint(group, folder->path(), state.parts(rank), options);
    last_saved = std::max(last_saved, state.step);
  }
}

void run(WorkerId rank) {
  Random own = random_of(rank);
  rpc::init_rpc("w" + std::to_string(rank), options_of_seed());
  for (int i = 0; i < 4; ++i) try {
      train(rank, own);
    } catch (const Error& e) {
      // A load whose worker was lost may also report the shards that it could not compare.
      if (must_succeed) problem("rank " + std::to_string(rank) + ", attempt " + std::to_string(i) + ": " + e.what());
      rpc::sleep_for(std::chrono::milliseconds(own.below(1000)));
    }
  rpc::shutdown({.timeout = 60s, .accept_losses = true});
}

void check(const SimulationReport& report, const Faults& faults) {
  check_all_returned(report, faults);
  if (must_succeed && last_saved == 0) problem("nothing was saved");
  folder.reset();
}

const bool added = add({.name = "checkpoints",
                        .world_size = kWorkers,
                        .begin =
                            [](uint64_t seed) {
                              must_succeed = harmless(faults_of(seed)) && !faults_of(seed).long_delay;
                              last_begun = last_saved = 0;
                              folder = std::make_unique<testing::TemporaryFolder>();
                            },
                        .run = run,
                        .check = check});

}  // namespace simulated::checkpoints
