#include "tendril/nn/checkpoint.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/make.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"

extern char** environ;

BOOST_AUTO_TEST_SUITE(checkpoint)

using tendril::Error;
using tendril::Generator;
using tendril::testing::read_bytes;
using tendril::testing::says;
using tendril::testing::TemporaryFolder;
using tendril::testing::test_seed;
using tendril::testing::write_bytes;
namespace make = tendril::make;
namespace nn = tendril::nn;
namespace optim = tendril::optim;
namespace raw = tendril::raw;

namespace {

/// Runs the program `train` until `steps` steps are done and returns the status from waitpid. The process kills itself
/// at its `dies_at`-th call that changes files (tests/file_calls.h); 0: never.
int train(const std::string& file, const std::string& steps, int dies_at = 0) {
  std::string program = TENDRIL_TEST_PROGRAMS "/train", path = file, count = steps;
  std::string number = "TENDRIL_TEST_DIES_AT=" + std::to_string(dies_at);
  char* const arguments[] = {program.data(), path.data(), count.data(), nullptr};
  std::vector<char*> variables;
  if (dies_at > 0) variables.push_back(number.data());
  for (char** entry = environ; *entry != nullptr; ++entry) variables.push_back(*entry);
  variables.push_back(nullptr);
  pid_t child = 0;
  int status = 0;
  BOOST_REQUIRE(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, variables.data()) == 0);
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

struct Run {
  nn::Linear model{2, 3};
  optim::SGD sgd{model.parameters(), {.momentum = 0.9}};
  Generator generator{test_seed()};
  int64_t epoch = 0;
  double best = 0.5;

  nn::CheckpointParts parts() {
    return {{"model", model}, {"optimizer", sgd}, {"generator", generator}, {"epoch", epoch}, {"best", best}};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(all_parts_come_back_to_the_bit) {
  const TemporaryFolder folder;
  Run saved, loaded;
  saved.sgd.step({make::ones({3, 2}), make::ones({3})});
  saved.generator.bits();
  saved.epoch = (int64_t{1} << 62) + 1;
  saved.best = 0.1;
  nn::save_checkpoint(folder / "x", saved.parts());
  nn::load_checkpoint(folder / "x", loaded.parts());
  BOOST_TEST(raw::equal(loaded.model.weight, saved.model.weight));
  BOOST_TEST(raw::equal(loaded.sgd.state(loaded.model.bias).momentum_buffer,
                        saved.sgd.state(saved.model.bias).momentum_buffer));
  BOOST_TEST((loaded.generator.state() == saved.generator.state()));
  BOOST_TEST(loaded.epoch == saved.epoch);
  BOOST_TEST(loaded.best == 0.1);
  const tendril::StateDict file = tendril::load_safetensors(folder / "x");
  BOOST_TEST(file.contains("model.weight"));
  BOOST_TEST(file.at("epoch").item<int64_t>() == saved.epoch);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_run_is_refused_with_all_that_differs) {
  const TemporaryFolder folder;
  Run run;
  nn::Linear other(4, 3);
  int64_t steps = 7;
  nn::save_checkpoint(folder / "x",
                      {{"model", other}, {"generator", run.generator}, {"steps", steps}, {"best", steps}});
  run.generator.bits();
  const auto before = run.generator.state();
  BOOST_CHECK_EXCEPTION(nn::load_checkpoint(folder / "x", run.parts()), Error,
                        says("load_checkpoint", "nothing was loaded", "has a part 'steps'",
                             "'model': ", "weight: got shape [3, 4], expected [3, 2]",
                             "'optimizer': ", "missing: param_groups.0.lr", "'epoch': ", "missing: epoch"));
  BOOST_TEST((run.generator.state() == before));
  BOOST_TEST(run.best == 0.5);
}

BOOST_AUTO_TEST_CASE(what_is_no_checkpoint_is_refused) {
  const TemporaryFolder folder;
  Run run;
  tendril::save_safetensors(run.model.state_dict(), folder / "weights");
  BOOST_CHECK_EXCEPTION(nn::load_checkpoint(folder / "weights", run.parts()), Error,
                        says("weights", "is no checkpoint"));
  nn::save_checkpoint(folder / "x", run.parts());
  write_bytes(folder / "half", read_bytes(folder / "x").substr(0, 500));
  BOOST_CHECK_EXCEPTION(nn::load_checkpoint(folder / "half", run.parts()), Error, says("half", "cut short"));
  BOOST_CHECK_EXCEPTION(nn::load_checkpoint(folder / "absent", run.parts()), Error, says("absent", "No such file"));
}

BOOST_AUTO_TEST_CASE(parts_have_names_of_their_own) {
  const TemporaryFolder folder;
  int64_t number = 0;
  BOOST_CHECK_EXCEPTION(nn::save_checkpoint(folder / "x", {{"a", number}, {"a", number}}), Error,
                        says("two parts", "'a'"));
  BOOST_CHECK_EXCEPTION(nn::CheckpointPart("a.b", number), Error, says("'a.b'", "dot"));
  BOOST_CHECK_EXCEPTION(nn::CheckpointPart("", number), Error, says("empty"));
}

// Each run continues from the checkpoint of the previous one and dies one call later: at every point of a save.
BOOST_AUTO_TEST_CASE(killed_runs_end_like_an_uninterrupted_one) {
  const TemporaryFolder folder;
  const std::string steps = "60";
  BOOST_REQUIRE(train(folder / "whole", steps) == 0);
  int kills = 0;
  for (bool done = false; !done;) {
    const int status = train(folder / "killed", steps, kills + 1);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    BOOST_TEST_REQUIRE((killed || status == 0), "after " << kills << " kills");
    kills += killed;
    done = !killed;
  }
  BOOST_TEST_MESSAGE(kills << " kills");
  BOOST_TEST(kills >= 10);
  BOOST_TEST((read_bytes(folder / "killed") == read_bytes(folder / "whole")));
}

BOOST_AUTO_TEST_SUITE_END()
