// Gradients of random computations on 2 to 4 workers must equal those of local autograd.
//
// TENDRIL_GRAPHS sets the number of graphs, TENDRIL_GRAPH_SEED the seed of the first. A failure prints its seed.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tendril/autograd/backward.h"
#include "tests/dist/random_program.h"
#include "tests/seed.h"

namespace dist_test {

std::vector<Tensor> run_program(const Program& program, const std::vector<Tensor>& inputs) {
  return DistributedRunner().run(program, inputs);
}

}  // namespace dist_test

using namespace dist_test;
using tendril::testing::test_seed;

namespace {

int64_t setting(const char* name, int64_t usual) {
  const char* const text = std::getenv(name);
  const int64_t given = text ? std::strtoll(text, nullptr, 10) : 0;
  return given > 0 ? given : usual;
}

/// The first of consecutive seeds.
int64_t first_seed() { return setting("TENDRIL_GRAPH_SEED", static_cast<int64_t>(test_seed() >> 2)); }

Parameters random_parameters(uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + 1);
  std::normal_distribution<double> normal;
  Parameters parameters;
  for (auto& of_worker : parameters) {
    for (Tensor& parameter : of_worker) parameter = leaf({normal(random), normal(random), normal(random)});
  }
  return parameters;
}

Parameters copies(const Parameters& parameters) {
  Parameters copied = parameters;
  for (auto& of_worker : copied) {
    for (Tensor& parameter : of_worker) parameter = parameter.detach().clone().requires_grad_();
  }
  return copied;
}

std::vector<Tensor> scalars(const std::vector<Tensor>& results) {
  std::vector<Tensor> roots;
  for (const Tensor& result : results) {
    if (result.requires_grad()) roots.push_back(result.sum());
  }
  return roots;
}

/// True if both are undefined, or equal up to rounding.
bool agree(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const Values x = values(a), y = values(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(std::abs(x[i] - y[i]) <= 1e-12 * std::max(1.0, std::abs(y[i])))) return false;
  }
  return x.size() == y.size();
}

struct Totals {
  int64_t graphs = 0, with_unused = 0, nested = 0, shared = 0, several_roots = 0, fast = 0, twice = 0;
  int64_t crossing = 0, local = 0, messages = 0;

  void print(const char* where) const {
    std::cout << where << ": " << graphs << " graphs, " << messages << " messages, "
              << 100 * crossing / std::max<int64_t>(crossing + local, 1) << "% of edges across workers, "
              << 100 * with_unused / graphs << "% of graphs with unused outputs, " << 100 * nested / graphs
              << "% with nested calls, " << 100 * shared / graphs << "% with shared parameters, "
              << 100 * several_roots / graphs << "% with several roots, " << fast << " also run by FAST, " << twice
              << " run twice\n";
  }
};

/// False if the graph has no root that requires a gradient.
bool check_graph(const Group& group, uint64_t seed, Totals& totals) {
  const int workers = 2 + static_cast<int>(seed % 3);
  const Program program = ProgramGenerator(seed, workers).root();
  distributed_parameters() = random_parameters(seed);
  Parameters local = copies(distributed_parameters());

  LocalRunner runner(local);
  const std::vector<Tensor> expected_roots = scalars(runner.run(program, {}));
  if (expected_roots.empty()) return false;
  const bool twice = seed % 5 == 0;
  tendril::autograd::backward(expected_roots, {}, {.retain_graph = twice});
  if (twice) tendril::autograd::backward({expected_roots.back()});
  const Shape shape = runner.shape();

  const auto compare = [&](const Context& context, const char* mode) {
    for (int rank = 0; rank < workers; ++rank) {
      const auto container = Container::of(group[rank]);
      const Gradients gradients = container->contains(context.id()) ? container->gradients(context.id()) : Gradients();
      for (std::size_t i = 0; i < kParameters; ++i) {
        const auto at = static_cast<std::size_t>(rank);
        BOOST_TEST(agree(gradients.find(distributed_parameters()[at][i]), local[at][i].grad()),
                   "seed " << seed << ", " << mode << ": parameter " << i << " of w" << rank);
        BOOST_TEST(!distributed_parameters()[at][i].grad().defined());
      }
    }
  };
  {
    const Context context(group[0]);
    const std::vector<Tensor> roots = scalars(DistributedRunner().run(program, {}));
    backward(context, roots, {.retain_graph = twice, .timeout = 60s});
    if (twice) backward(context, {roots.back()}, {.timeout = 60s});
    compare(context, "SMART");
  }
  if (shape.unused_messages == 0 && !twice) {
    const Context context(group[0]);
    backward(context, scalars(DistributedRunner().run(program, {})), {.mode = Mode::fast, .timeout = 60s});
    compare(context, "FAST");
    ++totals.fast;
  }
  ++totals.graphs;
  totals.with_unused += shape.unused_messages > 0;
  totals.nested += shape.depth > 1;
  totals.shared += shape.most_uses_of_a_parameter > 1;
  totals.several_roots += expected_roots.size() > 1;
  totals.twice += twice;
  totals.crossing += shape.crossing_edges;
  totals.local += shape.local_edges;
  totals.messages += shape.messages;
  return true;
}

void check_graphs(const Group& group, int64_t count, const char* where) {
  const int64_t first = first_seed();
  Totals totals;
  for (int64_t seed = first; totals.graphs < count; ++seed) {
    if (!check_graph(group, static_cast<uint64_t>(seed), totals)) continue;
    for (int rank = 0; rank < group.size(); ++rank) {
      BOOST_REQUIRE(Cluster::eventually([&] { return group.counters(rank).contexts == 0; }));
    }
  }
  distributed_parameters() = {};
  totals.print(where);
  if (count < 400) return;  // with fewer graphs, these shares vary too much from seed to seed
  BOOST_TEST(4 * totals.crossing >= totals.crossing + totals.local);
  BOOST_TEST(4 * totals.with_unused >= totals.graphs);
  BOOST_TEST(4 * totals.nested >= totals.graphs);
  BOOST_TEST(4 * totals.shared >= totals.graphs);
  BOOST_TEST(4 * totals.several_roots >= totals.graphs);
  BOOST_TEST(20 * totals.fast >= totals.graphs);
  BOOST_TEST(10 * totals.twice >= totals.graphs);
}

/// Names the first gradient that differs from local autograd's, "" if none does. Keeps the distributed parameters.
std::string compare_graph(const Group& group, uint64_t seed, std::chrono::milliseconds timeout = 60s) {
  const int workers = 2 + static_cast<int>(seed % 3);
  const Program program = ProgramGenerator(seed, workers).root();
  Parameters local = copies(distributed_parameters());
  LocalRunner runner(local);
  const std::vector<Tensor> expected = scalars(runner.run(program, {}));
  if (expected.empty()) return "";
  tendril::autograd::backward(expected);
  const Context context(group[0]);
  backward(context, scalars(DistributedRunner().run(program, {})), {.timeout = timeout});
  for (int rank = 0; rank < workers; ++rank) {
    const auto container = Container::of(group[rank]);
    const Gradients gradients = container->contains(context.id()) ? container->gradients(context.id()) : Gradients();
    for (std::size_t i = 0; i < kParameters; ++i) {
      const auto at = static_cast<std::size_t>(rank);
      if (agree(gradients.find(distributed_parameters()[at][i]), local[at][i].grad())) continue;
      // A worker that loses the maker of a context releases the context, even if its backward has just succeeded.
      if (!container->contains(context.id())) throw rpc::RpcError("the context has gone");
      return "seed " + std::to_string(seed) + ": parameter " + std::to_string(i) + " of w" + std::to_string(rank);
    }
  }
  return "";
}

/// Outcomes of graphs that ran under faults.
struct Ends {
  int64_t right = 0, failed = 0;
  std::string wrong = {};
};

/// Runs `count` graphs on four threads, each in its own context. Network errors count as failures; wrong gradients are
/// recorded in `ends.wrong`.
void run_amid_faults(const Group& group, uint64_t first, uint64_t count, Ends& ends) {
  std::atomic<uint64_t> next{first};
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t seed = next++; seed < first + count; seed = next++) {
        std::string differs;
        bool failed = false;
        try {
          differs = compare_graph(group, seed, 2s);
        } catch (const rpc::RpcError&) {
          failed = true;
        } catch (const AutogradError&) {
          failed = true;
        } catch (const std::exception& error) {
          differs = "seed " + std::to_string(seed) + ": " + error.what();
        }
        const std::lock_guard lock(mutex);
        ends.failed += failed;
        ends.right += !failed && differs.empty();
        if (!differs.empty()) ends.wrong += differs + "; ";
      }
    });
  }
}

/// Whether the faults have caused an error and left enough graphs to compare.
bool shows_enough(const Ends& ends) { return ends.right >= 40 && ends.failed > 0; }

void check_ends(const Ends& ends, int64_t count, const char* what) {
  distributed_parameters() = {};
  BOOST_TEST(ends.wrong == "");
  BOOST_TEST(ends.right + ends.failed == count);
  BOOST_TEST(shows_enough(ends));
  std::cout << what << ": " << ends.right << " graphs right, " << ends.failed << " errors\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_graphs)

/// Cuts the connection over which the n-th request of the group arrives.
struct Cutter final : rpc::MessageHook {
  Cutter(int rank, std::shared_ptr<std::atomic<int64_t>> left) : self(rank), requests_left(std::move(left)) {}
  void before_send(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_receive(const rpc::WorkerInfo& from, rpc::Message&) override {
    if (--*requests_left == 0) Group::cut(from.id, self);
  }
  void before_reply(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_reply(const rpc::WorkerInfo&, rpc::Message&) override {}

  const int self;
  const std::shared_ptr<std::atomic<int64_t>> requests_left;
};

BOOST_AUTO_TEST_CASE(cut_connection_gives_correct_gradients_or_error) {
  Ends ends;
  std::mt19937 random(test_seed());
  int round = 0;
  for (; round < 12 || (!shows_enough(ends) && round < 100); ++round) {
    distributed_parameters() = random_parameters(test_seed());
    const Group group(kWorkers, {.rpc_timeout = 2s});
    const auto left = std::make_shared<std::atomic<int64_t>>(10 + random() % 300);
    for (int rank = 0; rank < kWorkers; ++rank) group[rank].add_hook(std::make_shared<Cutter>(rank, left));
    run_amid_faults(group, static_cast<uint64_t>(first_seed() + 20 * round), 20, ends);
  }  // ~Group checks that nothing is left and shuts the agents down
  check_ends(ends, 20 * round, "connections cut");
}

BOOST_AUTO_TEST_CASE(overlapping_contexts_match_local_autograd) {
  const Group group(kWorkers);
  distributed_parameters() = random_parameters(test_seed());
  const int64_t count = setting("TENDRIL_GRAPHS", 950);
  std::atomic<int64_t> next{first_seed()}, done{0};
  const int64_t end = next + count;
  std::mutex mutex;
  std::string wrong;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      try {
        for (int64_t seed = next++; seed < end; seed = next++) {
          const std::string differs = compare_graph(group, static_cast<uint64_t>(seed));
          ++done;
          if (differs.empty()) continue;
          const std::lock_guard lock(mutex);
          wrong += differs + "; ";
        }
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        wrong += std::string(error.what()) + "; ";
      }
    });
  }
  threads.clear();
  BOOST_TEST(wrong == "");
  BOOST_TEST(done == count);
  std::cout << "overlapping: " << done << " graphs\n";
  for (int rank = 0; rank < kWorkers; ++rank) {
    BOOST_REQUIRE(Cluster::eventually([&] { return group.counters(rank).contexts == 0; }));
  }
  distributed_parameters() = {};
}

BOOST_AUTO_TEST_CASE(one_worker_thread_matches_local_autograd) {
  const Group group(kWorkers, {.num_worker_threads = 1});
  check_graphs(group, setting("TENDRIL_GRAPHS", 500), "one thread each");
}

BOOST_AUTO_TEST_CASE(many_worker_threads_match_local_autograd) {
  const Group group(kWorkers);
  check_graphs(group, std::min<int64_t>(setting("TENDRIL_GRAPHS", 60), 60), "many threads each");
}

BOOST_AUTO_TEST_SUITE_END()
