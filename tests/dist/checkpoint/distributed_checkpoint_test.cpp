// Checkpoints of several workers: restored values, groups of another size, rejected files, and recovery after a worker
// is killed during a save.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tendril/dist/checkpoint/checkpoint.h"
#include "tendril/dist/checkpoint/detail/folder.h"
#include "tendril/dist/optimizer.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/collectives/members.h"
#include "tests/rpc/process.h"
#include "tests/rpc/reserved_port.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(distributed_checkpoint)

using namespace dist_test;
using testing::read_bytes;
using testing::TemporaryFolder;
using testing::write_bytes;

namespace {

/// State of one worker. `number` determines the size of layer `own`.
struct Worker {
  explicit Worker(int number) : own(2, number + 1), generator(static_cast<uint64_t>(number)), seen(number) {}
  nn::Linear model{3, 2}, own;
  Generator generator;
  int64_t step = 0;
  double seen;
};

std::string layer(int number) { return std::string("layer").append(std::to_string(number)); }

dist::WorkerParts parts_of(Worker& worker, int number) {
  return {.shared = {{"model", worker.model}, {"step", worker.step}},
          .own = {{layer(number), worker.own}},
          .each = {{"generator", worker.generator}, {"seen", worker.seen}}};
}

/// Runs f(group, rank) on each of `size` agents; none may throw.
template <class F>
void together(const Group& workers, int size, const char* tag, F f) {
  at_all(size, [&](int rank) {
    ProcessGroup group(workers[rank], names(size), {.tag = tag});
    f(group, rank);
  });
}

/// Like `together`, but every call must throw an Error whose text contains all parts.
template <class F, class... Parts>
void refused(const Group& workers, int size, const char* tag, F f, const Parts&... parts) {
  together(workers, size, tag,
           [&](ProcessGroup& group, int rank) { check_throws<Error>([&] { f(group, rank); }, parts...); });
}

std::set<std::string> files_in(const TemporaryFolder& folder) {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    names.insert(file.path().filename().string());
  }
  return names;
}

/// Returns the path of a rank's file.
std::filesystem::path shard_of(const TemporaryFolder& folder, int rank, int size) {
  const uint64_t save = dist::detail::read_checkpoint(folder.path()).save;
  return folder.path() / dist::detail::Shard{save, rank, size}.file();
}

}  // namespace

BOOST_AUTO_TEST_CASE(load_restores_shared_own_and_each_parts) {
  const Group workers(3);
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<Worker>> saved(3), loaded(3);
  together(workers, 3, "", [&](ProcessGroup& group, int rank) {
    const auto i = static_cast<std::size_t>(rank);
    saved[i] = std::make_unique<Worker>(rank);
    saved[i]->step = 7;
    saved[i]->generator.bits();
    saved[i]->seen = 0.1 * rank;
    dist::save_checkpoint(group, folder.path(), parts_of(*saved[i], rank));
    loaded[i] = std::make_unique<Worker>(rank);
    dist::load_checkpoint(group, folder.path(), parts_of(*loaded[i], rank));
  });
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST(equal(loaded[i]->model.weight, saved[0]->model.weight));
    BOOST_TEST(equal(loaded[i]->own.weight, saved[i]->own.weight));
    BOOST_TEST((loaded[i]->generator.state() == saved[i]->generator.state()));
    BOOST_TEST(loaded[i]->step == 7);
    BOOST_TEST(loaded[i]->seen == saved[i]->seen);
  }
  BOOST_TEST(folder.size() == 4u);
  const StateDict whole = load_safetensors(folder / "checkpoint.index.json");
  for (const char* const name : {"model.weight", "step", "layer2.bias", "each.1.seen"})
    BOOST_TEST(whole.contains(name));
}

BOOST_AUTO_TEST_CASE(world_size_may_change_except_for_each) {
  const Group workers(4);
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<Worker>> saved(3);
  together(workers, 3, "", [&](ProcessGroup& group, int rank) {
    auto& worker = saved[static_cast<std::size_t>(rank)] = std::make_unique<Worker>(rank);
    worker->step = 5;
    dist::WorkerParts parts = parts_of(*worker, rank);
    parts.each.clear();
    dist::save_checkpoint(group, folder.path(), parts);
  });
  for (const int size : {1, 2, 4}) {
    std::vector<std::unique_ptr<nn::Linear>> layers(3);
    std::vector<int64_t> steps(4);
    together(workers, size, "moved", [&](ProcessGroup& group, int rank) {
      Worker mine(rank);
      dist::WorkerParts parts{.shared = {{"model", mine.model}, {"step", mine.step}}};
      for (int number = rank; number < 3; number += size) {
        auto& one = layers[static_cast<std::size_t>(number)] = std::make_unique<nn::Linear>(2, number + 1);
        parts.own.emplace_back(layer(number), *one);
      }
      dist::load_checkpoint(group, folder.path(), parts);
      check(equal(mine.model.weight, saved[0]->model.weight));
      steps[static_cast<std::size_t>(rank)] = mine.step;
    });
    for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(equal(layers[i]->weight, saved[i]->own.weight));
    for (int rank = 0; rank < size; ++rank) BOOST_TEST(steps[static_cast<std::size_t>(rank)] == 5);
  }
  const TemporaryFolder with_each;
  together(workers, 3, "each", [&](ProcessGroup& group, int rank) {
    dist::save_checkpoint(group, with_each.path(), parts_of(*saved[static_cast<std::size_t>(rank)], rank));
  });
  refused(
      workers, 2, "fewer",
      [&](ProcessGroup& group, int rank) {
        Worker mine(rank);
        dist::load_checkpoint(group, with_each.path(), parts_of(mine, rank));
      },
      "nothing was loaded", "worker 'w0'", "saved by 3 workers, expected 2", "'generator', 'seen'", "worker 'w1'");
  for (const int size : {2, 3, 4}) {  // with each_may_stay, only a group of the saved size loads them
    together(workers, size, "stay", [&](ProcessGroup& group, int rank) {
      Worker mine(rank);
      mine.seen = -1;
      dist::WorkerParts parts = parts_of(mine, rank);
      parts.own.clear();
      std::vector<std::unique_ptr<nn::Linear>> layers;
      for (int number = rank; number < 3; number += size)
        parts.own.emplace_back(layer(number), *layers.emplace_back(std::make_unique<nn::Linear>(2, number + 1)));
      dist::load_checkpoint(group, with_each.path(), parts, {.each_may_stay = true});
      check(mine.step == 5);
      check(mine.seen == (size == 3 ? rank : -1));
    });
  }
}

BOOST_AUTO_TEST_CASE(mismatch_anywhere_fails_all_and_changes_nothing) {
  const Group workers(3);
  const TemporaryFolder folder;
  together(workers, 3, "", [&](ProcessGroup& group, int rank) {
    Worker mine(rank);
    mine.step = 9;
    dist::save_checkpoint(group, folder.path(), parts_of(mine, rank));
  });
  refused(
      workers, 3, "shape",
      [&](ProcessGroup& group, int rank) {
        Worker mine(rank == 2 ? 7 : rank);
        try {
          dist::load_checkpoint(group, folder.path(), parts_of(mine, rank));
        } catch (const Error&) {
          check(mine.step == 0);
          throw;
        }
      },
      "nothing was loaded", "worker 'w2'", "'layer2'", "weight: got shape [3, 2], expected [8, 2]");
  refused(
      workers, 3, "unasked",
      [&](ProcessGroup& group, int rank) {
        Worker mine(rank);
        dist::WorkerParts parts = parts_of(mine, rank);
        if (rank == 1) parts.own.clear();
        parts.each.pop_back();
        dist::load_checkpoint(group, folder.path(), parts);
      },
      "nothing was loaded", "has a part 'each: seen'", "has a part 'layer1', which no worker asks for");
  refused(
      workers, 3, "more",
      [&](ProcessGroup& group, int rank) {
        Worker mine(rank);
        dist::WorkerParts parts = parts_of(mine, rank);
        parts.shared.emplace_back("epoch", mine.step);
        dist::load_checkpoint(group, folder.path(), parts);
      },
      "worker 'w1'", "'epoch'", "missing");
}

BOOST_AUTO_TEST_CASE(conflicting_parts_are_rejected_before_writing) {
  const Group workers(2);
  const TemporaryFolder folder;
  int64_t number = 0;
  double other = 0;
  const auto save = [&](const char* tag, auto parts, const auto&... texts) {
    refused(
        workers, 2, tag,
        [&](ProcessGroup& group, int rank) { dist::save_checkpoint(group, folder.path(), parts(rank)); }, texts...);
  };
  using Parts = dist::WorkerParts;
  save(
      "own",
      [&](int) {
        return Parts{.own = {{"a", number}}};
      },
      "workers 'w0' and 'w1' both", "'a'");
  save(
      "shared",
      [&](int rank) {
        return Parts{.shared = {{rank == 0 ? "a" : "b", number}}};
      },
      "'shared' differ", "worker 'w1' has 'b'", "worker 'w0' 'a'");
  save(
      "each",
      [&](int rank) {
        return rank == 0 ? Parts{} : Parts{.each = {{"a", number}}};
      },
      "'each' differ", "none");
  save(
      "twice",
      [&](int) {
        return Parts{.shared = {{"a", number}}, .each = {{"a", other}}};
      },
      "two parts", "'a'");
  save(
      "both",
      [&](int rank) {
        return rank == 0 ? Parts{.own = {{"b", number}}} : Parts{.own = {{"each", number}}};
      },
      "worker 'w1'", "'each'");
  BOOST_TEST(folder.size() == 0u);
}

BOOST_AUTO_TEST_CASE(failed_write_keeps_the_old_checkpoint) {
  const Group workers(2);
  const TemporaryFolder folder;
  int64_t step = 1;
  together(workers, 2, "", [&](ProcessGroup& group, int) {
    dist::save_checkpoint(group, folder.path(), {.shared = {{"step", step}}});
  });
  const auto before = files_in(folder);
  refused(
      workers, 2, "absent",
      [&](ProcessGroup& group, int rank) {
        dist::save_checkpoint(group, rank == 0 ? folder.path() : folder / "absent", {.shared = {{"step", step}}});
      },
      "save_checkpoint", "the old checkpoint was kept", "worker 'w1'", "No such file");
  BOOST_TEST((files_in(folder) == before));
  const TemporaryFolder elsewhere;
  refused(
      workers, 2, "elsewhere",
      [&](ProcessGroup& group, int rank) {
        dist::save_checkpoint(group, rank == 0 ? folder.path() : elsewhere.path(), {.shared = {{"step", step}}});
      },
      "the index could not be written", "worker 'w0'", "No such file");
  BOOST_TEST(dist::detail::read_checkpoint(folder.path()).entries.at("step").item<int64_t>() == 1);
}

BOOST_AUTO_TEST_CASE(save_removes_only_files_of_unfinished_saves) {
  const Group workers(2);
  const TemporaryFolder folder;
  const std::string stale = dist::detail::Shard{0x1234, 1, 3}.file();
  write_bytes(folder / stale, "half");
  write_bytes(folder / (stale + ".tendril-0123456789ab"), "half");
  write_bytes(folder / "checkpoint.index.json.tendril-0123456789ab", "half");
  const std::set<std::string> others{"model.safetensors", "checkpoint-notes.txt", "checkpoint-best.safetensors",
                                     "checkpoint.index.json.tendril-notes"};
  for (const std::string& name : others) write_bytes(folder / name, "mine");
  int64_t step = 0;
  for (int i = 0; i < 3; ++i) {
    together(workers, 2, "", [&](ProcessGroup& group, int) {
      dist::save_checkpoint(group, folder.path(), {.shared = {{"step", step}}});
    });
    const auto files = files_in(folder);
    BOOST_TEST(files.size() == 3 + others.size());
    BOOST_TEST(!files.contains(stale));
    for (const std::string& name : others) BOOST_TEST(files.contains(name));
  }
}

BOOST_AUTO_TEST_CASE(missing_stale_or_damaged_files_are_rejected) {
  const Group workers(1);
  const TemporaryFolder folder, other;
  int64_t step = 3;
  BOOST_TEST(!dist::has_checkpoint(folder.path()));
  const auto load = [&] {
    ProcessGroup group(workers[0], names(1));
    dist::load_checkpoint(group, folder.path(), {.shared = {{"step", step}}});
  };
  BOOST_CHECK_EXCEPTION(load(), Error, says("load_checkpoint", "checkpoint.index.json", "No such file"));
  const auto save = [&](const TemporaryFolder& to) {
    ProcessGroup group(workers[0], names(1));
    dist::save_checkpoint(group, to.path(), {.shared = {{"step", step}}});
  };
  save(folder);
  save(other);
  BOOST_TEST(dist::has_checkpoint(folder.path()));
  const auto mine = shard_of(folder, 0, 1), theirs = shard_of(other, 0, 1);
  const std::string good = read_bytes(mine);
  write_bytes(mine, good.substr(0, good.size() - 3));
  BOOST_CHECK_EXCEPTION(load(), Error, says("nothing was loaded", mine.filename().string()));
  save_safetensors({{"step", full({}, 3, {.dtype = kInt64})}}, mine);
  BOOST_CHECK_THROW(load(), Error);  // no checkpoint metadata
  std::filesystem::remove(mine);
  BOOST_CHECK_EXCEPTION(load(), Error, says("nothing was loaded", "No such file"));
  write_bytes(folder / "checkpoint.index.json", "{");
  BOOST_CHECK_EXCEPTION(load(), Error, says("checkpoint.index.json"));

  // Files of two workers, one of which is from an earlier save.
  const Group two(2);
  const auto save_both = [&] {
    together(two, 2, "", [&](ProcessGroup& group, int) {
      dist::save_checkpoint(group, folder.path(), {.shared = {{"step", step}}});
    });
  };
  save_both();
  const std::string earlier = read_bytes(shard_of(folder, 1, 2));
  save_both();
  write_bytes(shard_of(folder, 1, 2), earlier);
  BOOST_CHECK_EXCEPTION(load(), Error, says("the file of rank 1 is of another save"));
  BOOST_TEST(step == 3);
}

BOOST_AUTO_TEST_CASE(distributed_optimizer_can_be_a_part) {
  const Group workers(1);
  const TemporaryFolder folder;
  nn::Linear model(2, 2);
  dist::DistributedOptimizer<optim::SGD> saved(workers[0], dist::parameter_rrefs(workers[0], model), {.lr = 0.25});
  dist::DistributedOptimizer<optim::SGD> loaded(workers[0], dist::parameter_rrefs(workers[0], model), {.lr = 0.5});
  ProcessGroup group(workers[0], names(1));
  dist::save_checkpoint(group, folder.path(), {.own = {{"optimizer", saved}}});
  dist::load_checkpoint(group, folder.path(), {.own = {{"optimizer", loaded}}});
  BOOST_TEST(loaded.lr() == 0.25);
  BOOST_CHECK_EXCEPTION(loaded.load_state_dict(saved.state_dict(), {.strict = false}), Error, says("strict"));
}

// In each run, one worker dies at a chosen call that changes files (tests/file_calls.h). A save makes about 20 such
// calls on rank 0: those for its own file (writes, then fsync, linkat, rename and fsync), as many for the index, whose
// rename commits the save, and one removal for each stale file. On another rank it makes about 9.
BOOST_AUTO_TEST_CASE(killed_saves_lose_nothing) {
  constexpr int kKills = 30;
  const std::string program = TENDRIL_TEST_PROGRAMS "/training_scenarios";
  /// Continues from the checkpoint in `folder` until `step`, or until worker `victim` dies at its call `dies_at`.
  const auto run = [&](const TemporaryFolder& folder, int size, int64_t step, int victim = -1, int dies_at = 0) {
    const test::ReservedPort port;
    std::vector<test::Process> workers;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::string> variables{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port.number()),
                                         "WORLD_SIZE=" + std::to_string(size), "RANK=" + std::to_string(rank)};
      if (rank == victim) variables.push_back("TENDRIL_TEST_DIES_AT=" + std::to_string(dies_at));
      workers.push_back(test::Process({program, "train", folder.path().string(), std::to_string(step)}, variables));
    }
    for (int rank = 0; rank < size; ++rank) {
      const test::Ended ended = workers[static_cast<std::size_t>(rank)].wait();
      if (rank == victim) {
        BOOST_TEST_REQUIRE(ended.signal == SIGKILL, "rank " << rank << " survived its call " << dies_at);
      } else if (victim < 0) {
        BOOST_TEST_REQUIRE(ended.code == 0, "rank " << rank);
      } else {
        BOOST_TEST(ended.code == 3, "rank " << rank << " ended with " << ended.code);  // an error: a worker was lost
      }
    }
  };
  const auto step_in = [](const TemporaryFolder& folder) -> int64_t {
    if (!dist::has_checkpoint(folder.path())) return 0;  // killed in the first save
    return dist::detail::read_checkpoint(folder.path()).entries.at("step").item<int64_t>();
  };
  struct Leg {
    int size;
    int64_t end;  // the last step saved
  };
  std::vector<Leg> legs;
  const TemporaryFolder killed, whole;
  int between = 0;
  const auto note = [&](int size) {
    const int64_t now = step_in(killed);  // throws unless the checkpoint is complete
    const int64_t before = legs.empty() ? 0 : legs.back().end;
    BOOST_TEST(now >= before);
    if (now > before) legs.push_back({size, now});
    between += now > 0 && killed.size() > static_cast<std::size_t>(legs.back().size) + 1;
  };
  for (int i = 0; i < kKills; ++i) {
    const int size = 2 + i % 3, other = 1 + i % (size - 1);
    BOOST_TEST_CONTEXT("kill " << i << " of " << size << " workers") {
      // Counts down from rank 0's second save, so that a checkpoint exists by the time rank 0 dies in its first.
      i % 2 == 0 ? run(killed, size, 100, 0, 26 - i / 2) : run(killed, size, 100, other, 1 + i / 2);
      note(size);
    }
  }
  const int last = legs.back().size == 4 ? 2 : legs.back().size + 1;
  run(killed, last, legs.back().end + 2);
  note(last);
  BOOST_TEST_MESSAGE("after " << between << " of " << kKills << " kills the folder had files of two saves");
  BOOST_TEST(between > 0);
  BOOST_TEST(legs.size() > 2U);
  BOOST_TEST(killed.size() == static_cast<std::size_t>(legs.back().size) + 1);
  for (const Leg& leg : legs) run(whole, leg.size, leg.end);
  const auto a = dist::detail::read_checkpoint(whole.path()).entries;
  const auto b = dist::detail::read_checkpoint(killed.path()).entries;
  BOOST_TEST(a.size() == b.size());
  for (const auto& [name, tensor] : a) BOOST_TEST(equal(tensor, b.at(name)), name);
}

/// State stored in the released checkpoints (tests/nn/released_files_test.cpp).
std::unique_ptr<Worker> released(int rank) {
  auto worker = std::make_unique<Worker>(rank);
  raw::copy_(worker->model.weight.detach(), arange(6).reshape({2, 3}).to(kFloat32) / 8);
  raw::copy_(worker->own.weight.detach(), full(worker->own.weight.sizes(), rank + 0.5));
  worker->step = 7;
  worker->seen = rank + 0.25;
  return worker;
}

BOOST_AUTO_TEST_CASE(write_released) {
  const char* const folder = std::getenv("TENDRIL_RELEASE_FILES");
  if (folder == nullptr) return;  // set only to write the files of a release
  std::filesystem::create_directories(folder);
  const Group workers(2);
  std::vector<std::unique_ptr<Worker>> saved(2);
  together(workers, 2, "", [&](ProcessGroup& group, int rank) {
    auto& worker = saved[static_cast<std::size_t>(rank)] = released(rank);
    dist::save_checkpoint(group, folder, parts_of(*worker, rank));
  });
}

BOOST_AUTO_TEST_CASE(checkpoint_of_0_1_0_is_loaded) {
  const TemporaryFolder folder;  // a copy: nothing may be written beside the fixtures
  std::filesystem::copy(TENDRIL_TEST_DATA "/0.1.0", folder.path());
  const Group workers(2);
  std::vector<std::unique_ptr<Worker>> loaded(2);
  together(workers, 2, "", [&](ProcessGroup& group, int rank) {
    auto& worker = loaded[static_cast<std::size_t>(rank)] = std::make_unique<Worker>(rank);
    dist::load_checkpoint(group, folder.path(), parts_of(*worker, rank));
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Worker& worker = *loaded[static_cast<std::size_t>(rank)];
    const auto expected = released(rank);
    BOOST_TEST(equal(worker.model.weight, expected->model.weight));
    BOOST_TEST(equal(worker.own.weight, expected->own.weight));
    BOOST_TEST((worker.generator.state() == expected->generator.state()));
    BOOST_TEST(worker.step == 7);
    BOOST_TEST(worker.seen == rank + 0.25);
  }
}

BOOST_AUTO_TEST_SUITE_END()
