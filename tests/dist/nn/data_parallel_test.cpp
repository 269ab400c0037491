// Replicas of a module on several workers, each with a part of the batch, compared with one process that has all of it.
#include "tendril/dist/nn/data_parallel.h"

#include <atomic>
#include <chrono>
#include <latch>

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/dist/collectives/members.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(data_parallel)

using namespace dist_test;
using dist::DistributedDataParallel;
using tendril::testing::test_seed;

namespace {

constexpr int kSize = 3;
const ProcessGroup::Options kSmallChunks{.chunk_bytes = 64};

struct Net : nn::Module {
  explicit Net(uint64_t seed)
      : generator(test_seed(seed)),
        first(4, 6, {.dtype = kFloat64, .generator = generator}),
        second(6, 5, {.dtype = kFloat64, .generator = generator}),
        third(5, 1, {.dtype = kFloat64, .generator = generator}) {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
  }
  Tensor loss(const Tensor& x, bool skip_second = false) const {
    const Tensor h = first(x).tanh();
    const Tensor k = skip_second ? h.narrow(1, 0, 5) : second(h).tanh();
    return third(k).square().mean();
  }
  Generator generator;
  nn::Linear first, second, third;
};

Tensor batch(int step) {
  Generator generator(test_seed(static_cast<uint64_t>(step) + 100));
  return randn({6, 4}, generator, {.dtype = kFloat64});
}

bool close(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-12, 1e-13); }

}  // namespace

BOOST_AUTO_TEST_CASE(training_matches_the_whole_batch) {
  const Group group(kSize);
  at_all(kSize, [&](int rank) {
    Net whole(1), mine(static_cast<uint64_t>(rank) + 1);  // DDP broadcasts the first member's parameters
    ProcessGroup members(group[rank], names(kSize), kSmallChunks);
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 200});
    check(ddp.num_buckets() > 2);
    optim::SGD sgd(mine.parameters(), {.lr = 0.1, .momentum = 0.9}),
        reference(whole.parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 4; ++step) {
      sgd.zero_grad();
      reference.zero_grad();
      ddp.backward(mine.loss(batch(step).narrow(0, 2 * rank, 2)));
      whole.loss(batch(step)).backward();
      for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
        check(close(mine.parameters()[i].grad(), whole.parameters()[i].grad()));
      }
      sgd.step();
      reference.step();
    }
    for (std::size_t i = 0; i < whole.parameters().size(); ++i)
      check(close(mine.parameters()[i], whole.parameters()[i]));
  });
}

BOOST_AUTO_TEST_CASE(ddp_backward_averages_accumulated_gradients) {
  const Group group(kSize);
  at_all(kSize, [&](int rank) {
    Net whole(1), mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members);
    check(ddp.num_buckets() == 1);
    mine.loss(batch(0).narrow(0, 2 * rank, 2)).backward();
    ddp.backward(mine.loss(batch(1).narrow(0, 2 * rank, 2)));
    whole.loss(batch(0)).backward();
    whole.loss(batch(1)).backward();
    for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
      check(close(mine.parameters()[i].grad(), whole.parameters()[i].grad()));
    }
  });
}

BOOST_AUTO_TEST_CASE(averaging_overlaps_backward) {
  const Group group(2);
  at_all(2, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 1});  // one bucket per parameter
    const uint64_t before = group[rank].metrics().requests_sent;
    std::atomic<bool> overlapped{false};
    // Runs when the first layer's gradient arrives. The buckets of later layers are sent meanwhile.
    autograd::register_hook(mine.first.weight, [&](const Tensor&) {
      overlapped = Cluster::eventually([&] { return group[rank].metrics().requests_sent > before; });
      return Tensor();
    });
    ddp.backward(mine.loss(batch(0)));
    check(overlapped);
  });
}

BOOST_AUTO_TEST_CASE(missing_gradient_is_named_or_allowed) {
  const Group group(kSize);
  const auto said = outcomes(kSize, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members);
    ddp.backward(mine.loss(batch(0), rank == 1));
  });
  for (const std::string& mine : said) {
    BOOST_TEST(has(mine, "no gradient came for 'second.bias', 'second.weight'"), mine);
    BOOST_TEST(has(mine, "find_unused_parameters"), mine);
  }
  for (const std::size_t rank : {0u, 2u}) BOOST_TEST(has(said[rank], "worker 'w1' aborted"), said[rank]);
  at_all(kSize, [&](int rank) {
    Net whole(1), mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 1, .find_unused_parameters = true});
    ddp.backward(mine.loss(batch(0).narrow(0, 2 * rank, 2), rank == 1));
    Tensor loss = whole.loss(batch(0).narrow(0, 0, 2)) + whole.loss(batch(0).narrow(0, 2, 2), true) +
                  whole.loss(batch(0).narrow(0, 4, 2));
    (loss / 3).backward();
    for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
      check(close(mine.parameters()[i].grad(), whole.parameters()[i].grad()));
    }
    mine.zero_grad();
    ddp.backward(mine.loss(batch(0), true));  // unused on all members
    check(!mine.second.weight.grad().defined());
    check(mine.first.weight.grad().defined());
  });
}

BOOST_AUTO_TEST_CASE(frozen_unfrozen_and_cast_parameters_get_gradients) {
  struct Twins : nn::Module {
    Tensor a = leaf({1, 2}), b = leaf({3, 4});
    Twins() {
      register_parameter("a", a);
      register_parameter("b", b);
    }
  } twins;
  const Group group(1);
  ProcessGroup alone(group[0], names(1));
  DistributedDataParallel ddp(twins, alone, {.find_unused_parameters = true});
  for (const Tensor* first : {&twins.a, &twins.b}) {  // the allocator may reuse one parameter's memory for the other
    const Tensor& second = first == &twins.a ? twins.b : twins.a;
    for (const bool thawed : {false, true}) {
      first->requires_grad_(thawed);
      second.requires_grad_(thawed);
    }
    twins.to(kFloat32);
    twins.to(kFloat64);
    twins.zero_grad();
    ddp.backward((twins.a * twins.b).sum());
    BOOST_TEST(values(twins.a.grad()) == Values({3, 4}));
    BOOST_TEST(values(twins.b.grad()) == Values({1, 2}));
  }
  twins.a.requires_grad_(false);
  twins.b.requires_grad_(false);
  twins.b.requires_grad_(true);
  twins.b.zero_grad();
  const Tensor kept = twins.a.grad();
  ddp.backward((twins.a * twins.b).sum());
  BOOST_TEST(twins.a.grad().is_same(kept));
  BOOST_TEST(values(twins.b.grad()) == Values({1, 2}));
}

BOOST_AUTO_TEST_CASE(frozen_parameters_need_no_gradient) {
  const Group group(2);
  at_all(2, [&](int rank) {
    Net whole(1), mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members);
    for (Net* net : {&whole, &mine}) net->first.requires_grad_(false);
    ddp.backward(mine.loss(batch(0).narrow(0, 3 * rank, 3)));
    whole.loss(batch(0)).backward();
    check(!mine.first.weight.grad().defined());
    check(close(mine.second.weight.grad(), whole.second.weight.grad()));
  });
}

BOOST_AUTO_TEST_CASE(unfrozen_parameters_are_averaged) {
  const Group group(2);
  at_all(2, [&](int rank) {
    Net whole(1), mine(1);
    for (Net* net : {&whole, &mine}) net->first.requires_grad_(false);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 200});
    for (int step = 0; step < 3; ++step) {
      if (step == 1) {
        for (Net* net : {&whole, &mine}) net->first.weight.requires_grad_();
      }
      mine.zero_grad();
      whole.zero_grad();
      ddp.backward(mine.loss(batch(step).narrow(0, 3 * rank, 3)));
      whole.loss(batch(step)).backward();
      check(mine.first.weight.grad().defined() == (step > 0));
      if (step > 0) check(close(mine.first.weight.grad(), whole.first.weight.grad()));
      check(!mine.first.bias.grad().defined());
      check(close(mine.second.weight.grad(), whole.second.weight.grad()));
    }
  });
}

BOOST_AUTO_TEST_CASE(parameters_unfrozen_at_one_member_fail_all) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    Net mine(1);
    mine.first.requires_grad_(false);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members);
    if (rank == 1) mine.first.requires_grad_();
    ddp.backward(mine.loss(batch(0)));
  });
  for (const std::string& mine : said) BOOST_TEST(mine.starts_with("CollectiveError: "), mine);
}

BOOST_AUTO_TEST_CASE(different_unfrozen_parameters_fail_both_members) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    Net mine(1);
    mine.second.requires_grad_(false);
    mine.first.requires_grad_(false);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members);
    (rank == 0 ? mine.first : mine.second).bias.requires_grad_();
    ddp.backward(mine.loss(batch(0)));
  });
  for (const std::string& mine : said) BOOST_TEST(mine.starts_with("CollectiveError: "), mine);
  BOOST_TEST(has(said[1], "bias"), said[1]);
}

BOOST_AUTO_TEST_CASE(replaced_parameter_fails_all_members) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members);
    mine.third.bias = zeros({1}, {.dtype = kFloat64, .requires_grad = true});
    ddp.backward(mine.loss(batch(0)));
  });
  for (const std::string& mine : said) {
    BOOST_TEST(has(mine, "a parameter of shape [1] that it did not have when this object was made"), mine);
  }
}

BOOST_AUTO_TEST_CASE(loss_without_history_fails_all_members) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members);
    const Tensor loss = mine.loss(batch(0));
    ddp.backward(rank == 0 ? loss.detach() : loss);
  });
  BOOST_TEST(has(said[0], "loss must be one element that requires a gradient"), said[0]);
  BOOST_TEST(has(said[1], "worker 'w0' aborted"), said[1]);
}

BOOST_AUTO_TEST_CASE(failed_member_does_not_wait_for_others) {
  const Group group(2);
  std::latch thrown(1);
  const auto said = outcomes(2, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 1});
    if (rank == 1) thrown.wait();
    autograd::register_hook(mine.first.weight, [&](const Tensor&) -> Tensor {
      if (rank == 0) throw Error("a bad hook");
      return {};
    });
    const auto before = std::chrono::steady_clock::now();
    try {
      ddp.backward(mine.loss(batch(0)));
    } catch (...) {
      if (rank == 0) thrown.count_down();
      check(rank == 1 || std::chrono::steady_clock::now() - before < std::chrono::seconds(30));
      throw;
    }
  });
  BOOST_TEST(has(said[0], "a bad hook"), said[0]);
  BOOST_TEST(has(said[1], "a bad hook"), said[1]);
}

BOOST_AUTO_TEST_CASE(different_modules_are_rejected_on_all_members) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    nn::Linear linear(4, rank == 0 ? 3 : 2);
    ProcessGroup members(group[rank], names(2));
    const DistributedDataParallel ddp(linear, members);
  });
  for (const std::string& mine : said) {
    BOOST_TEST(has(mine, "CollectiveError: "), mine);
    BOOST_TEST(has(mine, "worker 'w1' aborted: DistributedDataParallel"), mine);
    BOOST_TEST(has(mine, "weight float32 [2, 4]"), mine);
    BOOST_TEST(has(mine, "weight float32 [3, 4]"), mine);
  }
}

BOOST_AUTO_TEST_CASE(buffers_are_copied_from_first_member) {
  const Group group(2);
  at_all(2, [&](int rank) {
    nn::BatchNorm1d norm(3);
    (void)norm(full({4, 3}, rank + 1.0) * tensor({1.0, 2.0, 3.0}));
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(norm, members);
    const Tensor running = norm.buffers()[0];
    check(std::abs(values(running)[2] - 0.3) < 1e-6);
    raw::fill_(running, rank + 5);
    ddp.broadcast_buffers();
    check(values(running)[0] == 5);
  });
}

BOOST_AUTO_TEST_CASE(backward_error_reaches_all_members) {
  const Group group(2);
  const auto said = outcomes(2, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members);
    if (rank == 0) {
      autograd::register_hook(mine.second.weight,
                              [](const Tensor&) -> Tensor { throw std::runtime_error("a bad hook"); });
    }
    ddp.backward(mine.loss(batch(0)));
  });
  for (const std::string& mine : said) BOOST_TEST(has(mine, "a bad hook"), mine);
}

BOOST_AUTO_TEST_SUITE_END()
