// Checkpoint parts that are stored on other workers, which write and read their own files.
#include <algorithm>
#include <array>
#include <set>

#include "tendril/dist/checkpoint/checkpoint.h"
#include "tendril/dist/checkpoint/detail/folder.h"
#include "tendril/dist/nn/remote_module.h"
#include "tendril/dist/optimizer.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/files/safetensors.h"
#include "tests/dist/collectives/members.h"
#include "tests/seed.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(remote_part)

using namespace dist_test;
using tendril::testing::test_seed;
using testing::TemporaryFolder;

namespace dist_remote_part {

/// Constructed on its owner.
struct Layer : nn::Module {
  Layer(int64_t in, int64_t out, uint64_t seed)
      : generator(test_seed(seed)), linear(in, out, {.generator = generator}) {
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x) { return linear(x); }
  Generator generator;
  nn::Linear linear;
};
using Remote = dist::RemoteModule<Layer>;
using Sgd = dist::DistributedOptimizer<optim::SGD>;

/// A module in two halves on two workers, and an optimizer for both.
struct Halves {
  Halves(Agent& agent, int first_on, int second_on, uint64_t seed, double lr)
      : first(agent, first_on, int64_t{4}, int64_t{3}, seed),
        second(agent, second_on, int64_t{3}, int64_t{2}, seed + 1),
        optimizer(agent, groups(), {}) {
    optimizer.set_lr(lr);
  }
  std::vector<Sgd::Group> groups() const {
    return {{first.remote_parameters(), {.lr = 0.5, .momentum = 0.9}},
            {second.remote_parameters(), {.lr = 0.5, .momentum = 0.9}}};
  }
  void train(Agent& agent, int steps) {
    for (int i = 0; i < steps; ++i) {
      const Context context(agent);
      backward(context, {second.forward(first.forward(ones({2, 4}) * (i + 1.))).square().sum()});
      optimizer.step(context);
    }
  }
  dist::WorkerParts parts() { return {.remote = {{"first", first}, {"second", second}, {"optimizer", optimizer}}}; }

  Remote first, second;
  Sgd optimizer;
};

bool same(const StateDict& a, const StateDict& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&](const auto& one) { return equal(one.second, b.at(one.first)); });
}

std::set<std::string> files_in(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    names.insert(file.path().filename().string());
  return names;
}

}  // namespace dist_remote_part
using namespace dist_remote_part;

BOOST_AUTO_TEST_CASE(owners_write_and_read_their_own_files) {
  const Group workers(4);
  const TemporaryFolder folder;
  int64_t step = 5;
  Halves saved(workers[0], 2, 3, 7, 0.125);
  saved.train(workers[0], 3);
  at_all(2, [&](int rank) {
    ProcessGroup group(workers[rank], names(2));
    dist::WorkerParts parts;
    if (rank == 0) parts = saved.parts();
    parts.shared = {{"step", step}};
    dist::save_checkpoint(group, folder.path(), parts);
  });
  BOOST_TEST(folder.size() == 7u);  // two members, two modules, the optimizer's two owners, the index
  const StateDict whole = load_safetensors(folder / "checkpoint.index.json");
  BOOST_TEST(same(whole.section("first"), saved.first.state_dict()));
  BOOST_TEST(same(whole.section("optimizer"), saved.optimizer.state_dict()));

  // Load onto other owners, in groups of other sizes.
  for (const int size : {1, 3}) {
    Halves loaded(workers[0], 3, size == 1 ? 3 : 1, 100, 0.5);
    at_all(size, [&](int rank) {
      ProcessGroup group(workers[rank], names(size), {.tag = "load"});
      int64_t mine = 0;
      dist::WorkerParts parts;
      if (rank == 0) parts = loaded.parts();
      parts.shared = {{"step", mine}};
      dist::load_checkpoint(group, folder.path(), parts);
      check(mine == 5);
    });
    BOOST_TEST(same(loaded.first.state_dict(), saved.first.state_dict()));
    BOOST_TEST(same(loaded.second.state_dict(), saved.second.state_dict()));
    BOOST_TEST(same(loaded.optimizer.state_dict(), saved.optimizer.state_dict()));
    BOOST_TEST(loaded.optimizer.lr() == 0.125);
  }
}

BOOST_AUTO_TEST_CASE(gathered_and_owner_written_states_are_interchangeable) {
  const Group workers(3);
  const TemporaryFolder folder;
  Halves saved(workers[0], 1, 2, 7, 0.125), loaded(workers[0], 2, 1, 50, 0.5);
  saved.train(workers[0], 2);
  ProcessGroup group(workers[0], names(1));
  dist::save_checkpoint(group, folder.path(), {.own = {{"optimizer", saved.optimizer}}});
  dist::load_checkpoint(group, folder.path(), {.remote = {{"optimizer", loaded.optimizer}}});
  BOOST_TEST(same(loaded.optimizer.state_dict(), saved.optimizer.state_dict()));
  saved.train(workers[0], 1);
  dist::save_checkpoint(group, folder.path(), {.remote = {{"optimizer", saved.optimizer}}});
  dist::load_checkpoint(group, folder.path(), {.own = {{"optimizer", loaded.optimizer}}});
  BOOST_TEST(same(loaded.optimizer.state_dict(), saved.optimizer.state_dict()));
}

BOOST_AUTO_TEST_CASE(elements_stay_on_their_owner) {
  const Group workers(2);
  const TemporaryFolder folder;
  const Remote module(workers[0], 1, int64_t{300}, int64_t{300}, uint64_t{1});
  module.eval();  // waits until the module exists
  ProcessGroup group(workers[0], names(1));
  const uint64_t before = workers[1].metrics().bytes_sent;
  dist::save_checkpoint(group, folder.path(), {.remote = {{"module", module}}});
  dist::load_checkpoint(group, folder.path(), {.remote = {{"module", module}}});
  BOOST_TEST(workers[1].metrics().bytes_sent - before < 4096u);
}

BOOST_AUTO_TEST_CASE(lost_owner_keeps_the_old_checkpoint) {
  const Group workers(4);
  const TemporaryFolder folder;
  Halves halves(workers[0], 2, 3, 7, 0.125);
  int64_t step = 1;
  const auto save = [&](const char* tag) {
    return outcomes(2, [&](int rank) {
      ProcessGroup group(workers[rank], names(2), {.tag = tag});
      dist::WorkerParts parts;
      if (rank == 0) parts = halves.parts();
      parts.shared = {{"step", step}};
      dist::save_checkpoint(group, folder.path(), parts);
    });
  };
  for (const std::string& mine : save("good")) BOOST_TEST(mine == "");
  const std::set<std::string> before = files_in(folder);
  step = 2;
  workers.cut(0, 3);
  for (const std::string& mine : save("bad")) {
    BOOST_TEST(has(mine, "the old checkpoint was kept"), mine);
    BOOST_TEST(has(mine, "worker 'w0': "), mine);
    BOOST_TEST(has(mine, "w3"), mine);
  }
  BOOST_TEST(files_in(folder) == before, boost::test_tools::per_element());
  BOOST_TEST(load_safetensors(folder / "checkpoint.index.json").at("step").item<int64_t>() == 1);
}

BOOST_AUTO_TEST_CASE(mismatch_on_an_owner_fails_every_load) {
  const Group workers(3);
  const TemporaryFolder folder;
  int64_t step = 1;
  const auto each = [&](const char* tag, const auto& f) {
    return outcomes(2, [&](int rank) {
      ProcessGroup group(workers[rank], names(2), {.tag = tag});
      f(group, rank);
    });
  };
  const Remote saved(workers[0], 2, int64_t{4}, int64_t{3}, uint64_t{1}),
      other(workers[0], 2, int64_t{4}, int64_t{2}, uint64_t{1});
  for (const std::string& mine : each("save", [&](ProcessGroup&group, int rank) {
         dist::save_checkpoint(group, folder.path(),
                               {.shared = {{"step", step}},
                                .remote = rank == 1 ? dist::RemoteParts{{"module", saved}} : dist::RemoteParts()});
       })) {
    BOOST_TEST(mine == "");
  }
  std::array<int64_t, 2> steps{};  // per member
  const auto load = [&](const dist::RemoteParts& remote) {
    return [&, remote](ProcessGroup& group, int rank) {
      dist::load_checkpoint(group, folder.path(),
                            {.shared = {{"step", steps.at(static_cast<std::size_t>(rank))}},
                             .remote = rank == 0 ? remote : dist::RemoteParts()});
    };
  };
  for (const std::string& mine : each("shape", load({{"module", other}}))) {
    BOOST_TEST(has(mine, "nothing was loaded"), mine);
    BOOST_TEST(has(mine, "'module': "), mine);
    BOOST_TEST(has(mine, "linear.weight"), mine);
  }
  for (const std::string& mine : each("name", load({{"another", saved}})))
    BOOST_TEST(has(mine, "nothing was loaded"), mine);
  for (const std::string& mine : each("none", load({})))
    BOOST_TEST(has(mine, "has a part 'module', which no worker asks for"), mine);
  BOOST_TEST(steps == (std::array<int64_t, 2>{}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(invalid_names_are_rejected_before_writing) {
  const Group workers(3);
  const TemporaryFolder folder;
  const Remote module(workers[0], 2, int64_t{4}, int64_t{3}, uint64_t{1});
  const auto refused = [&](const char* tag, const dist::RemoteParts& first, const dist::RemoteParts& second,
                           const char* text) {
    for (const std::string& mine : outcomes(2, [&](int rank) {
           ProcessGroup group(workers[rank], names(2), {.tag = tag});
           dist::save_checkpoint(group, folder.path(), {.remote = rank == 0 ? first : second});
         })) {
      BOOST_TEST(has(mine, text), mine);
    }
  };
  refused("both", {{"module", module}}, {{"module", module}}, "both have a part called 'module'");
  refused("twice", {{"module", module}, {"module", module}}, {}, "two parts have the name 'module'");
  refused("dots", {{"a.b", module}}, {}, "a part has the name 'a.b', expected one without dots");
  refused("taken", {}, {{"shard", module}}, "a part is called 'shard'");
  BOOST_TEST(folder.size() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
