// Collectives between several workers, and the errors that members get when one diverges or does not take part.
#include <atomic>
#include <cmath>
#include <future>
#include <latch>
#include <mutex>

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/dist/collectives/detail/hub.h"
#include "tendril/rpc/task.h"
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/collectives/members.h"
#include "tests/rpc/hang.h"
#include "tests/seed.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(collectives)

using namespace dist_test;
using tendril::testing::test_seed;

namespace {

const ProcessGroup::Options kSmallChunks{.chunk_bytes = 32};

Tensor random_of(int rank, const Dims& sizes, DType dtype = kFloat32) {
  Generator generator(test_seed(static_cast<uint64_t>(rank)));
  return randn(sizes, generator).to(dtype);
}

/// Reference result: reduces the tensors of all ranks in rank order.
Tensor star(int size, const std::function<Tensor(int)>& of, ReduceOp op) {
  Tensor sum = of(0).clone();
  for (int rank = 1; rank < size; ++rank) {
    const Tensor part = of(rank);
    raw::binary_(op == ReduceOp::max   ? Binary::maximum
                 : op == ReduceOp::min ? Binary::minimum
                                       : Binary::add,
                 sum, part);
  }
  if (op == ReduceOp::average) raw::binary_(Binary::div, sum, Scalar(size));
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_CASE(deterministic_all_reduce_matches_rank_order_sum) {
  for (const int size : {1, 2, 3, 5}) {
    const Group group(size);
    at_all(size, [&](int rank) {
      ProcessGroup members(group[rank], names(size), kSmallChunks);
      for (const int64_t numel : {0, 1, 3, 8, 217}) {
        for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min}) {
            const Tensor x = random_of(rank, {numel}, dtype);
            members.all_reduce(x, op, {.deterministic = true});
            const Tensor expected = star(
                size, [&](int r) { return random_of(r, {numel}, dtype); }, op);
            check(equal(x, expected));
          }
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(deterministic_mode_reduces_in_rank_order) {
  struct Deterministic {
    Deterministic() { set_deterministic(true); }
    ~Deterministic() { set_deterministic(false); }
  } const deterministic;
  for (const int size : {2, 3, 5}) {
    const Group group(size);
    at_all(size, [&](int rank) {
      ProcessGroup members(group[rank], names(size), kSmallChunks);
      const auto random = [&](int r) { return random_of(r, {size, 217}); };
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
        const Tensor x = random(rank), y = random(rank), expected = star(size, random, op);
        members.all_reduce(x, op);
        members.all_reduce_async(y, op).wait();
        check(equal(x, expected));
        check(equal(y, expected));
        check(equal(members.reduce_scatter(random(rank), op), expected.narrow(0, rank, 1)));
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(ring_results_are_identical_on_all_members) {
  for (const int size : {2, 3, 4}) {
    const Group group(size);
    std::mutex mutex;
    std::vector<Tensor> results;
    at_all(size, [&](int rank) {
      ProcessGroup members(group[rank], names(size), kSmallChunks);
      for (const int64_t numel : {0, 1, 2, 500}) {
        const Tensor x = random_of(rank, {numel}, kFloat64), n = random_of(rank, {numel}).mul(100).to(kInt64);
        members.all_reduce(x, ReduceOp::average, {.deterministic = false});
        members.all_reduce(n, ReduceOp::sum, {.deterministic = false});
        const auto all = [&](auto of, ReduceOp op) { return star(size, of, op); };
        check(allclose(x, all([&](int r) { return random_of(r, {numel}, kFloat64); }, ReduceOp::average), 1e-12));
        check(equal(n, all([&](int r) { return random_of(r, {numel}).mul(100).to(kInt64); }, ReduceOp::sum)));
        if (numel != 500) continue;
        const std::lock_guard lock(mutex);
        results.push_back(x);
      }
    });
    for (const Tensor& result : results) BOOST_TEST(equal(result, results.front()));
  }
}

BOOST_AUTO_TEST_CASE(average_of_large_float16_is_finite) {
  for (const int size : {2, 3}) {
    const Group group(size);
    at_all(size, [&](int rank) {
      ProcessGroup members(group[rank], names(size));
      for (const bool deterministic : {false, true}) {
        const Tensor x = zeros({600}, {.dtype = kFloat16}).fill_(30000 + 1000 * rank);
        const double expected = 30000 + 500 * (size - 1);
        const Tensor part = members.reduce_scatter(x, ReduceOp::average, {.deterministic = deterministic});
        check(allclose(part.to(kFloat64), zeros({600 / size}, {.dtype = kFloat64}).fill_(expected), 2e-3));
        members.all_reduce(x, ReduceOp::average, {.deterministic = deterministic});
        check(allclose(x.to(kFloat64), zeros({600}, {.dtype = kFloat64}).fill_(expected), 2e-3));
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(gather_broadcast_and_reduce_scatter_match_references) {
  constexpr int kSize = 3;
  const Group group(kSize);
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kSmallChunks);
    const Tensor x = random_of(rank, {5, 4});
    const std::vector<Tensor> all = members.all_gather(x.transpose(0, 1));
    check(all.size() == 3u);
    for (int r = 0; r < kSize; ++r) {
      check(equal(all[static_cast<std::size_t>(r)], random_of(r, {5, 4}).transpose(0, 1)));
    }
    for (int root = 0; root < kSize; ++root) {
      const Tensor y = random_of(rank, {7, 6});
      const Tensor column = y.select(1, 2);  // the rest of the matrix must not change
      const auto version = y.version();
      members.broadcast(column, root);
      check(equal(column, random_of(root, {7, 6}).select(1, 2)));
      check(equal(y.select(1, 3), random_of(rank, {7, 6}).select(1, 3)));
      check((y.version() != version) == (rank != root));
    }
    for (const bool by_rank : {false, true}) {
      const Tensor mine = members.reduce_scatter(random_of(rank, {6, 5}), ReduceOp::sum, {.deterministic = by_rank});
      const Tensor sum = star(
          kSize,
          [&](int r) {
            return random_of(r, {6, 5});
          },
          ReduceOp::sum);
      const Tensor expected = sum.narrow(0, 2 * rank, 2);
      if (by_rank) check(equal(mine, expected));
      check(allclose(mine, expected, 1e-5, 1e-6));
    }
    members.barrier();
  });
}

BOOST_AUTO_TEST_CASE(async_operations_run_in_order) {
  constexpr int kSize = 3;
  const Group group(kSize, {.num_worker_threads = 1});
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize), kSmallChunks);
    std::vector<Tensor> xs;
    std::vector<rpc::Future<void>> done;
    for (int i = 0; i < 6; ++i) {
      xs.push_back(full({40}, i + rank, {.dtype = kFloat64}));
      done.push_back(members.all_reduce_async(xs.back()));
    }
    const Tensor last = full({3}, rank, {.dtype = kFloat64});
    members.all_reduce(last);  // runs after them
    for (int i = 0; i < 6; ++i) {
      check(done[static_cast<std::size_t>(i)].done());
      check(equal(xs[static_cast<std::size_t>(i)], full({40}, 3 * i + 3, {.dtype = kFloat64})));
    }
    check(values(last) == Values({3, 3, 3}));
  });
}

BOOST_AUTO_TEST_CASE(groups_may_be_subsets_and_overlap) {
  const Group group(4);
  at_all(4, [&](int rank) {
    const bool odd = rank % 2 == 1;
    const std::vector<std::string> mine =
        odd ? std::vector<std::string>{"w3", "w1"} : std::vector<std::string>{"w0", "w2"};
    ProcessGroup half(group[rank], mine), tagged(group[rank], mine, {.tag = "other"}), all(group[rank], names(4));
    check(half.workers()[0].name == mine[0]);
    check(half.rank() == (odd ? (rank == 3 ? 0 : 1) : rank / 2));
    const Tensor x = full({2}, rank, {.dtype = kFloat64}), y = x.clone(), z = x.clone();
    half.all_reduce(x);
    all.all_reduce(y);
    tagged.broadcast(z, 0);
    check(values(x)[0] == (odd ? 4 : 2));
    check(values(y)[0] == 6);
    check(values(z)[0] == (odd ? 3 : 0));
    check_throws<rpc::UsageError>([&] { ProcessGroup(group[rank], mine); }, "process group of 'w", "already exists",
                                  "tag");
  });
}

BOOST_AUTO_TEST_CASE(absent_member_is_named_by_all_others) {
  constexpr int kSize = 3;
  const Group group(kSize);
  std::latch others_done(2);
  const auto said = outcomes(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize));
    members.barrier();
    if (rank == 1) return others_done.wait();
    const Tensor x = zeros({4});
    try {
      members.all_reduce(x, ReduceOp::sum, {.timeout = 2s});  // enough for the other members
    } catch (const rpc::TimeoutError& first) {
      others_done.count_down();
      const std::string text = first.what();
      check_throws<rpc::TimeoutError>([&] { members.all_reduce(x); }, text);  // the group stays failed
      throw;
    }
  });
  BOOST_TEST(said[1] == "");
  for (const std::size_t rank : {0u, 2u}) {
    BOOST_TEST(has(said[rank], "TimeoutError: "), said[rank]);
    BOOST_TEST(has(said[rank], "worker 'w1' has not called it (its last was all_reduce(max"), said[rank]);
    BOOST_TEST(!has(said[rank], "worker 'w0' has"), said[rank]);
    BOOST_TEST(!has(said[rank], "worker 'w2' has"), said[rank]);
  }
}

BOOST_AUTO_TEST_CASE(member_missing_from_construction_is_named) {
  constexpr int kSize = 3;
  const Group group(kSize);
  for (const int missing : {0, 2}) {
    const auto said = outcomes(kSize, [&](int rank) {
      if (rank == missing) return;
      ProcessGroup(group[rank], names(kSize), {.tag = std::to_string(missing), .timeout = 1s});
    });
    for (int rank = 0; rank < kSize; ++rank) {
      const std::string& mine = said[static_cast<std::size_t>(rank)];
      const std::string name = "worker 'w" + std::to_string(missing) + "' has not joined";
      if (rank != missing) BOOST_TEST((has(mine, "TimeoutError: ") && has(mine, name)), mine);
    }
  }
  // The group can still be made afterwards.
  at_all(kSize, [&](int rank) { ProcessGroup(group[rank], names(kSize)).barrier(); });
}

BOOST_AUTO_TEST_CASE(mismatched_calls_are_named_on_all_members) {
  constexpr int kSize = 3;
  const Group group(kSize);
  const auto check = [&](const std::function<void(ProcessGroup&)>& usual,
                         const std::function<void(ProcessGroup&)>& other, const std::string& first,
                         const std::string& second) {
    const auto said = outcomes(kSize, [&](int rank) {
      ProcessGroup members(group[rank], names(kSize));
      (rank == 1 ? other : usual)(members);
    });
    for (const std::string& mine : said) {
      BOOST_TEST(has(mine, "CollectiveError: "), mine);
      BOOST_TEST(has(mine, first), mine);
      BOOST_TEST(has(mine, second), mine);
      BOOST_TEST(has(mine, "worker 'w1' calls " + second), mine);
    }
  };
  const auto sum = [](ProcessGroup& members) { members.all_reduce(zeros({2, 3})); };
  check(
      sum,
      [](ProcessGroup& members) {
        members.all_reduce(zeros({3, 2}));
      },
      "all_reduce(sum) of float32 [2, 3]", "all_reduce(sum) of float32 [3, 2]");
  check(
      sum,
      [](ProcessGroup& members) {
        members.all_reduce(zeros({2, 3}, {.dtype = kFloat64}));
      },
      "of float32 [2, 3]", "all_reduce(sum) of float64 [2, 3]");
  check(
      sum,
      [](ProcessGroup& members) {
        members.all_reduce(zeros({2, 3}), ReduceOp::max);
      },
      "all_reduce(sum)", "all_reduce(max)");
  check(
      sum,
      [](ProcessGroup& members) {
        (void)members.all_gather(zeros({2, 3}));
      },
      "all_reduce(sum)", "all_gather");
  check(
      sum,
      [](ProcessGroup& members) {
        members.broadcast(zeros({2, 3}), 1);
      },
      "all_reduce(sum)", "broadcast(from 1)");
}

BOOST_AUTO_TEST_CASE(lost_member_fails_all_and_survivors_regroup) {
  const Group group(4);
  std::latch ready(3);
  const auto start = rpc::Clock::now();
  const auto said = outcomes(4, [&](int rank) {
    ProcessGroup members(group[rank], names(4));
    members.barrier();
    if (rank == 2) {
      ready.wait();
      for (const int other : {0, 1, 3}) group.cut(2, other);
      return;
    }
    ready.count_down();
    members.all_reduce(zeros({10}));
  });
  BOOST_TEST((rpc::Clock::now() - start < 30s));
  for (const std::size_t rank : {0u, 1u, 3u}) {
    BOOST_TEST(has(said[rank], "PeerLostError: "), said[rank]);
    // The named worker depends on timing: w2, which is still alive here, may tell the workers that it still reaches
    // that it has lost the others, and they pass this on.
    BOOST_TEST(has(said[rank], "worker 'w"), said[rank]);
    BOOST_TEST(!has(said[rank], "CollectivePart"), said[rank]);
  }
  at_all(4, [&](int rank) {
    if (rank == 2) return;
    ProcessGroup rest(group[rank], {"w0", "w1", "w3"});
    const Tensor x = ones({5});
    rest.all_reduce(x);
    check(values(x)[4] == 3);
  });
}

BOOST_AUTO_TEST_CASE(lost_member_is_named_with_the_operation) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    ProcessGroup members(group[rank], names(2));
    members.barrier();
    if (rank == 0) return members.all_reduce(zeros({10}));
    test::wait_until("w0's part has arrived", [&] { return !group[1].calls_received().empty(); });
    group.cut(0, 1);
  });
  BOOST_TEST(has(said[0], "PeerLostError: "), said[0]);
  BOOST_TEST(has(said[0], "all_reduce(sum) of float32 [10]"), said[0]);
  BOOST_TEST(has(said[0], "worker 'w1'"), said[0]);
  BOOST_TEST(!has(said[0], "CollectivePart"), said[0]);
}

BOOST_AUTO_TEST_CASE(partly_overwritten_tensor_fails_backward) {
  constexpr int kSize = 3;
  const Group group(kSize);
  const auto reduce = [](ProcessGroup& members, const Tensor& x) {
    members.all_reduce(x, ReduceOp::sum, {.timeout = 2s});
  };
  const auto broadcast = [](ProcessGroup& members, const Tensor& x) { members.broadcast(x, 0, {.timeout = 2s}); };
  for (const auto operation : {+reduce, +broadcast}) {
    std::latch others_done(2);
    at_all(kSize, [&](int rank) {
      ProcessGroup members(group[rank], names(kSize), kSmallChunks);
      members.barrier();
      if (rank == 2) return others_done.wait();  // w1 gets the parts of w0, but never those of w2
      const Tensor weight = random_of(9, {600}).requires_grad_(), x = random_of(rank, {600});
      const Tensor loss = (weight * x).sum();
      check_throws<rpc::TimeoutError>([&] { operation(members, x); }, "'w2' has not called it");
      others_done.count_down();
      if (rank == 0) return;
      check(!equal(x, random_of(rank, {600})));
      check_throws<AutogradError>([&] { loss.backward(); }, "expected version");
    });
  }
}

namespace {

/// Three workers, of which w2 hangs when it receives its first reply.
struct WithOneThatHangs {
  const std::shared_ptr<rpc_test::Hang> hang = std::make_shared<rpc_test::Hang>();
  const Cluster cluster{
      3, {.ping_interval = 500ms, .liveness_timeout = 8s}, rpc::served_functions(), [this](Agent& agent) {
        dist::attach_collectives(agent);
        if (agent.self().id == 2) agent.add_hook(hang);
      }};
};

void check_that_w2_is_lost(const std::vector<std::string>& said) {
  for (const std::string& mine : said)
    BOOST_TEST((has(mine, "PeerLostError: ") && has(mine, "worker 'w2' is lost")), mine);
}

}  // namespace

int answer_nothing() { return 0; }

std::promise<void>& busy() {
  static std::promise<void> promise;
  return promise;
}
void be_busy() { busy().get_future().wait(); }

BOOST_AUTO_TEST_CASE(join_without_deadline_detects_silent_member) {
  const WithOneThatHangs workers;
  const rpc_test::LetGo let_go{workers.hang};
  const rpc::Future<int> hangs = rpc::rpc_async<&answer_nothing>(workers.cluster[2], 1, {.timeout = 0us});
  BOOST_REQUIRE(Cluster::eventually([&] { return workers.hang->hangs(); }));
  check_that_w2_is_lost(
      outcomes(2, [&](int rank) { ProcessGroup(workers.cluster[rank], names(3), {.timeout = 0ms}).barrier(); }));
}

BOOST_AUTO_TEST_CASE(check_time_detects_silent_member) {
  const WithOneThatHangs workers;
  const auto join = [&](int rank) {
    const auto hub = dist::detail::CollectiveHub::of(workers.cluster[rank]);
    std::vector<rpc::WorkerInfo> members;
    for (const std::string& name : names(3)) members.push_back(workers.cluster[rank].worker(name));
    auto channel = std::make_shared<dist::detail::Channel>(hub->transmitter(), std::move(members), rank, "");
    hub->add(channel);
    channel->join(rpc::Clock::now() + 30s);
    return channel;
  };
  const std::jthread w2([&] { (void)outcomes(1, [&](int) { join(2); }); });  // hangs at the reply that all have joined
  const rpc_test::LetGo let_go{workers.hang};
  check_that_w2_is_lost(outcomes(2, [&](int rank) {
    const auto channel = join(rank);
    channel->begin("an operation of another library", rpc::Clock::time_point::max());
    test::wait_until("check_time throws", [&] {
      channel->check_time();
      return false;
    });
  }));
}

BOOST_AUTO_TEST_CASE(member_whose_handlers_are_busy_takes_part) {
  const Group group(2, {.num_worker_threads = 1});
  const rpc::Future<void> handler = rpc::rpc_async<&be_busy>(group[0], 1);
  at_all(2, [&](int rank) {
    ProcessGroup members(group[rank], names(2));
    const Tensor x = ones({1000});
    members.all_reduce(x);
    check(x.to_vector<double>() == std::vector<double>(1000, 2));
  });
  BOOST_TEST(!handler.done());
  busy().set_value();
  handler.wait();
}

BOOST_AUTO_TEST_CASE(untaken_broadcast_times_out_at_root) {
  const Group group(2);
  std::latch over(1);
  at_all(2, [&](int rank) {
    ProcessGroup members(group[rank], names(2));
    members.barrier();
    if (rank == 1) return over.wait();
    const std::string said = outcomes(1, [&](int) { members.broadcast(ones({4}), 0, {.timeout = 200ms}); })[0];
    over.count_down();
    check(has(said, "TimeoutError") && has(said, "'w1' has not called it"));
  });
}

BOOST_AUTO_TEST_CASE(waiting_for_a_departed_member_fails) {
  constexpr int kSize = 3;
  const Group group(kSize);
  at_all(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize));
    members.barrier();
    if (rank == 0) return;  // no member sends to it from here on
    const Tensor x = ones({4});
    check_throws<CollectiveError>([&] { members.broadcast(x, 0, {.timeout = 40s}); }, "worker 'w0' has left the group");
  });
}

rpc::Task<void> reduce_and_meet(ProcessGroup& members, Tensor x) {
  co_await members.all_reduce_async(x);
  members.barrier({.timeout = 20s});
}

BOOST_AUTO_TEST_CASE(coroutine_may_block_after_an_awaited_operation) {
  const Group group(2);
  at_all(2, [&](int rank) {
    ProcessGroup members(group[rank], names(2));
    const Tensor x = ones({3});
    reduce_and_meet(members, x).wait();
    check(values(x.to(kFloat64))[0] == 2);
  });
}

BOOST_AUTO_TEST_CASE(deterministic_scatter_of_many_messages_completes) {
  const Group group(2);
  at_all(2, [&](int rank) {
    ProcessGroup members(group[rank], names(2), {.chunk_bytes = 16});
    const Tensor x = full({80'000}, rank + 1);  // 10,000 messages per segment; a member queues at most 8,192
    const Tensor mine = members.reduce_scatter(x, ReduceOp::sum, {.deterministic = true});
    check(mine.numel() == 40'000 && mine.min().item<float>() == 3 && mine.max().item<float>() == 3);
  });
}

BOOST_AUTO_TEST_CASE(abort_and_departure_reach_all_members) {
  constexpr int kSize = 3;
  const Group group(kSize);
  auto said = outcomes(kSize, [&](int rank) {
    ProcessGroup members(group[rank], names(kSize));
    if (rank == 2) return members.abort("the data has ended");
    members.all_reduce(zeros({3}));
  });
  for (const std::size_t rank : {0u, 1u}) {
    BOOST_TEST(has(said[rank], "CollectiveError: "), said[rank]);
    BOOST_TEST(has(said[rank], "worker 'w2' aborted: the data has ended"), said[rank]);
  }
  const auto start = rpc::Clock::now();
  std::latch left(1);
  said = outcomes(kSize, [&](int rank) {
    {
      ProcessGroup members(group[rank], names(kSize));
      members.barrier();
      if (rank != 2) {
        left.wait();
        members.all_reduce(zeros({3}));
      }
    }
    if (rank == 2) left.count_down();
  });
  for (const std::size_t rank : {0u, 1u}) BOOST_TEST(has(said[rank], "worker 'w2' has left"), said[rank]);
  BOOST_TEST((rpc::Clock::now() - start < 30s));
}

BOOST_AUTO_TEST_CASE(invalid_arguments_are_rejected_before_waiting) {
  const Group group(2);
  BOOST_CHECK_EXCEPTION(ProcessGroup(group[0], {}), rpc::UsageError, says("ProcessGroup", "workers", "empty"));
  BOOST_CHECK_EXCEPTION(ProcessGroup(group[0], {"w1"}), rpc::UsageError, says("'w0'", "not among"));
  BOOST_CHECK_EXCEPTION(ProcessGroup(group[0], {"w0", "w0"}), rpc::UsageError, says("'w0'", "twice"));
  BOOST_CHECK_EXCEPTION(ProcessGroup(group[0], {"w0", "nobody"}), rpc::UsageError, says("nobody"));
  ProcessGroup alone(group[0], {"w0"});
  BOOST_CHECK_EXCEPTION(alone.all_reduce(Tensor()), Error, says("all_reduce", "undefined"));
  BOOST_CHECK_EXCEPTION(alone.all_reduce(leaf({1, 2})), AutogradError, says("all_reduce", "NoGrad"));
  BOOST_CHECK_EXCEPTION(alone.all_reduce(zeros({2}, {.dtype = kBool})), DTypeError, says("all_reduce", "bool"));
  BOOST_CHECK_EXCEPTION(alone.all_reduce(zeros({2}, {.dtype = kInt64}), ReduceOp::average), DTypeError,
                        says("all_reduce", "average", "int64"));
  BOOST_CHECK_EXCEPTION(alone.broadcast(zeros({2}), 1), rpc::UsageError, says("broadcast", "root 1 of 1"));
  BOOST_CHECK_EXCEPTION(alone.all_reduce(zeros({2}), ReduceOp::sum, {.timeout = -1ms}), rpc::UsageError,
                        says("timeout", "-1 ms"));
  at_all(2, [&](int rank) {
    ProcessGroup members(group[rank], names(2));
    check_throws<ShapeError>([&] { (void)members.reduce_scatter(zeros({3, 2})); }, "reduce_scatter", "[3, 2]", "2");
    check_throws<ShapeError>([&] { (void)members.reduce_scatter(zeros({})); }, "reduce_scatter");
    const NoGrad no_grad;
    const Tensor weight = full({2}, rank, {.requires_grad = true});
    members.broadcast(weight, 1);
    check(values(weight)[0] == 1);
  });
}

BOOST_AUTO_TEST_SUITE_END()
