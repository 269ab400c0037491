// Files that earlier releases wrote, one folder per release in tests/nn/data. They are never changed: each version
// reads them, or refuses them with an error that names the reason. To add a release:
//   TENDRIL_RELEASE_FILES=tests/nn/data/0.1.0 test_nn --run_test=released_files/write
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/checkpoint.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"

BOOST_AUTO_TEST_SUITE(released_files)

using namespace tendril;
using boost::test_tools::tolerance;

namespace {

const std::filesystem::path kReleases = TENDRIL_TEST_DATA;

/// A tensor of each dtype, with values that all of them represent exactly.
StateDict all_dtypes(bool with_bfloat16) {
  StateDict dict;
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool}) {
    if (dtype == kBFloat16 && !with_bfloat16) continue;  // .npz has none
    std::ostringstream name;
    name << dtype;
    dict.insert(name.str(), arange(6).reshape({2, 3}).to(dtype));
  }
  return dict;
}

void check_equal(const StateDict& read, const StateDict& expected) {
  BOOST_TEST(read.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    BOOST_REQUIRE(read.contains(name));
    BOOST_TEST((read.at(name).dtype() == tensor.dtype()), name);
    BOOST_TEST(equal(read.at(name), tensor), name);
  }
}

/// A training run after two steps with known gradients.
struct Run {
  explicit Run(bool trained) {
    raw::copy_(layer.weight.detach(), arange(6).reshape({2, 3}).to(kFloat32) / 8);
    raw::copy_(layer.bias.detach(), arange(2).to(kFloat32));
    for (; trained && step < 2; ++step) {
      layer.weight.set_grad(full({2, 3}, 0.5));
      layer.bias.set_grad(full({2}, -0.25));
      adam.step();
    }
    if (trained) generator.bits();
  }
  nn::CheckpointParts parts() { return {{"layer", layer}, {"adam", adam}, {"generator", generator}, {"step", step}}; }

  nn::Linear layer{3, 2};
  optim::Adam adam{layer.parameters(), {.lr = 0.125}};
  Generator generator{7};
  int64_t step = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(write) {
  const char* const folder = std::getenv("TENDRIL_RELEASE_FILES");
  if (folder == nullptr) return;  // the usual run
  const std::filesystem::path path(folder);
  std::filesystem::create_directories(path / "sharded");
  save_safetensors(all_dtypes(true), path / "all_dtypes.safetensors");
  save_safetensors_sharded(all_dtypes(true), path / "sharded", {.max_shard_bytes = 64});
  save_npz(all_dtypes(false), path / "all_dtypes.npz");
  save_npy(arange(6).reshape({2, 3}), path / "arange.npy");
  Run run(true);
  nn::save_checkpoint(path / "checkpoint.safetensors", run.parts());
}

BOOST_AUTO_TEST_CASE(files_of_0_1_0_are_read) {
  const std::filesystem::path folder = kReleases / "0.1.0";
  check_equal(load_safetensors(folder / "all_dtypes.safetensors"), all_dtypes(true));
  check_equal(load_safetensors(folder / "sharded" / "model.safetensors.index.json"), all_dtypes(true));
  check_equal(load_npz(folder / "all_dtypes.npz"), all_dtypes(false));
  BOOST_TEST(equal(load_npy(folder / "arange.npy"), arange(6).reshape({2, 3})));
}

BOOST_AUTO_TEST_CASE(checkpoint_of_0_1_0_resumes) {
  Run resumed(false), expected(true);
  nn::load_checkpoint(kReleases / "0.1.0" / "checkpoint.safetensors", resumed.parts());
  BOOST_TEST(resumed.step == 2);
  BOOST_TEST(resumed.generator.bits() == expected.generator.bits());
  for (Run* const run : {&resumed, &expected}) {  // Adam's state is read, too
    run->layer.weight.set_grad(full({2, 3}, 1.0));
    run->layer.bias.set_grad(full({2}, 1.0));
    run->adam.step();
  }
  // Another compiler may round differently.
  const auto got = resumed.layer.weight.to_vector<float>(), wanted = expected.layer.weight.to_vector<float>();
  for (std::size_t i = 0; i < wanted.size(); ++i) BOOST_TEST(got[i] == wanted[i], tolerance(1e-6F));
}

BOOST_AUTO_TEST_SUITE_END()
