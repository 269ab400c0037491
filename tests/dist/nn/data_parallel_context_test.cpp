// Data-parallel training of models that are partly on other workers. Gradients go to each member's autograd context.
#include "tendril/dist/nn/data_parallel.h"

#include <array>
#include <atomic>
#include <mutex>

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/nn/linear.h"
#include "tendril/rpc/call.h"
#include "tendril/tensor/random.h"
#include "tests/dist/collectives/members.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(data_parallel_context)

using namespace dist_test;
using dist::DistributedDataParallel;
using tendril::testing::test_seed;

namespace dist_data_parallel {

constexpr int kSize = 3, kServer = 3;  // number of members, and the rank of a worker outside the group

/// The part of the model on the server.
struct Middle {
  Middle()
      : generator(5),  // fixed: all test cases share this object
        layer(6, 5, {.dtype = kFloat64, .generator = generator}) {}
  Generator generator;
  nn::Linear layer;
};
Middle& middle() {
  static Middle one;
  return one;
}
Tensor through(const Tensor& h) { return middle().layer(h).tanh(); }
Tensor mean_square(const Tensor& y) { return y.square().mean(); }

/// The part of the model on each member: a layer before the server's and one after it.
struct Net : nn::Module {
  explicit Net(uint64_t seed)
      : generator(test_seed(seed)),
        first(4, 6, {.dtype = kFloat64, .generator = generator}),
        last(5, 1, {.dtype = kFloat64, .generator = generator}) {
    register_module("first", first);
    register_module("last", last);
  }
  Tensor output(Agent& agent, const Tensor& x) const {
    return last(rpc::rpc_sync<&through>(agent, kServer, first(x).tanh()));
  }
  Tensor loss(Agent& agent, const Tensor& x) const { return mean_square(output(agent, x)); }
  Tensor loss_here(const Tensor& x) const { return mean_square(last(through(first(x).tanh()))); }
  Generator generator;
  nn::Linear first, last;
};

Tensor batch(int step) {
  Generator generator(test_seed(static_cast<uint64_t>(step) + 100));
  return randn({6, 4}, generator, {.dtype = kFloat64});
}
Tensor part(int step, int rank) { return batch(step).narrow(0, 2 * rank, 2); }

bool close(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-12, 1e-13); }

/// Gradients of the whole network in one process, summed over the losses of these batches.
struct Whole {
  explicit Whole(std::initializer_list<int> steps) : net(1) {
    for (const int step : steps) net.loss_here(batch(step)).backward();
    for (const Tensor& parameter : net.parameters()) gradients.push_back(parameter.grad());
    for (const Tensor& parameter : middle().layer.parameters()) {
      remote.push_back(parameter.grad().clone());
      parameter.set_grad({});
    }
  }
  Net net;
  std::vector<Tensor> gradients, remote;
};

}  // namespace dist_data_parallel
using namespace dist_data_parallel;

BOOST_AUTO_TEST_CASE(gradients_through_a_server_are_averaged) {
  const Whole whole({0});
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    const Group group(kSize + 1);
    std::mutex mutex;
    std::vector<Tensor> remote(2);
    at_all(kSize, [&](int rank) {
      Net mine(static_cast<uint64_t>(rank) + 1);
      ProcessGroup members(group[rank], names(kSize));
      DistributedDataParallel ddp(mine, members, {.bucket_bytes = bucket_bytes});
      const Context context(group[rank]);
      ddp.backward(context, mine.loss(group[rank], part(0, rank)));
      const Gradients gradients = get_gradients(context);
      check(gradients.size() == 4);
      for (std::size_t i = 0; i < 4; ++i) {
        check(close(gradients.at(mine.parameters()[i]), whole.gradients[i]));
        check(!mine.parameters()[i].grad().defined());
      }
      // The server's parameters get, in each context, only the gradients of that member's part.
      const Gradients there = Container::of(group[kServer])->gradients(context.id());
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < 2; ++i) {
        const Tensor third = there.at(middle().layer.parameters()[i]) / kSize;
        remote[i] = remote[i].defined() ? remote[i] + third : third;
      }
    });
    for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(close(remote[i], whole.remote[i]));
  }
}

BOOST_AUTO_TEST_CASE(only_part_may_be_data_parallel) {
  const Whole whole({0});
  const Group group(kSize + 1);
  std::array<Tensor, kSize> first;
  at_all(kSize, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine.last, members);
    const Context context(group[rank]);
    ddp.backward(context, mine.loss(group[rank], part(0, rank)));
    const Gradients gradients = get_gradients(context);
    check(close(gradients.at(mine.last.weight), whole.net.last.weight.grad()));
    first[static_cast<std::size_t>(rank)] = gradients.at(mine.first.weight);
  });
  BOOST_TEST(!close(first[0], first[1]));
  BOOST_TEST(close((first[0] + first[1] + first[2]) / kSize, whole.net.first.weight.grad()));
}

BOOST_AUTO_TEST_CASE(loss_may_be_on_another_worker) {
  const Whole whole({0});
  const Group group(kSize + 1, {.num_worker_threads = 1});
  at_all(kSize, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 1});
    const Context context(group[rank]);
    const rpc::RRef<Tensor> loss =
        rpc::remote<&mean_square>(group[rank], kServer, mine.output(group[rank], part(0, rank)));
    ddp.backward(context, loss);
    const Gradients gradients = get_gradients(context);
    for (std::size_t i = 0; i < 4; ++i) check(close(gradients.at(mine.parameters()[i]), whole.gradients[i]));
  });
}

BOOST_AUTO_TEST_CASE(earlier_gradients_are_averaged_too) {
  const Whole whole({0, 1});
  const Group group(kSize + 1);
  at_all(kSize, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members);
    const Context context(group[rank]);
    backward(context, {mine.loss(group[rank], part(0, rank))});
    const Gradients before = get_gradients(context);
    const Tensor held = before.at(mine.first.weight).clone();
    ddp.backward(context, mine.loss(group[rank], part(1, rank)));
    for (std::size_t i = 0; i < 4; ++i) {
      check(close(get_gradients(context).at(mine.parameters()[i]), whole.gradients[i]));
    }
    check(equal(before.at(mine.first.weight), held));  // earlier snapshots do not change
  });
}

BOOST_AUTO_TEST_CASE(frozen_parameter_gets_no_gradient) {
  const Group group(kSize + 1);
  at_all(kSize, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members, {.find_unused_parameters = true});
    mine.first.bias.requires_grad_(false);  // one of the averaged parameters
    const Context context(group[rank]);
    ddp.backward(context, mine.loss(group[rank], part(0, rank)));
    check(get_gradients(context).size() == 3);
    check(get_gradients(context).contains(mine.first.weight));
  });
}

BOOST_AUTO_TEST_CASE(unused_parameters_have_no_gradient_if_allowed) {
  const Group group(kSize + 1);
  const auto train = [&](int rank, bool allowed) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members, {.find_unused_parameters = allowed});
    const Context context(group[rank]);
    const Tensor h = mine.first(part(0, rank)).tanh();
    ddp.backward(context, rpc::rpc_sync<&through>(group[rank], kServer, h).mean());
    check(get_gradients(context).contains(mine.first.weight));
    check(!get_gradients(context).contains(mine.last.weight));
  };
  at_all(kSize, [&](int rank) { train(rank, true); });
  for (const std::string& said : outcomes(kSize, [&](int rank) { train(rank, false); })) {
    BOOST_TEST(has(said, "no gradient came for 'last.bias', 'last.weight'"), said);
  }
}

BOOST_AUTO_TEST_CASE(averaging_overlaps_the_backward) {
  const Group group(3);
  at_all(2, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(2));
    DistributedDataParallel ddp(mine, members, {.bucket_bytes = 1});
    std::atomic<bool> overlapped{false};
    const Context context(group[rank]);
    const Tensor h = mine.first(batch(0)).tanh();
    const Tensor loss = mean_square(mine.last(rpc::rpc_sync<&through>(group[rank], 2, h)));
    const uint64_t before = group[rank].metrics().requests_sent;
    // Before the first layer's gradient arrives, the pass has sent its one message to the server, and averaging has
    // begun.
    autograd::register_hook(mine.first.weight, [&](const Tensor&) {
      overlapped = Cluster::eventually([&] { return group[rank].metrics().requests_sent > before + 1; });
      return Tensor();
    });
    ddp.backward(context, loss);
    check(overlapped);
  });
}

BOOST_AUTO_TEST_CASE(error_at_one_member_reaches_all) {
  const Group group(kSize + 1);
  const auto said = outcomes(kSize, [&](int rank) {
    Net mine(1);
    ProcessGroup members(group[rank], names(kSize));
    DistributedDataParallel ddp(mine, members);
    const Context context(group[rank]);
    if (rank == 1) {
      autograd::register_hook(mine.first.weight,
                              [](const Tensor&) -> Tensor { throw std::runtime_error("a bad hook"); });
    }
    ddp.backward(context, mine.loss(group[rank], part(0, rank)));
  });
  for (const std::string& mine : said) BOOST_TEST(has(mine, "a bad hook"), mine);
  for (const std::string& mine : outcomes(kSize, [&](int rank) {
         Net net(1);
         ProcessGroup members(group[rank], names(kSize));
         DistributedDataParallel ddp(net, members);
         const Context context(group[rank]);
         ddp.backward(context, net.loss(group[rank], part(0, rank)), {.create_graph = rank == 2});
       })) {
    BOOST_TEST(has(mine, "create_graph is not supported across workers"), mine);
  }
}

BOOST_AUTO_TEST_CASE(context_belongs_to_one_data_parallel_module) {
  const Group group(kSize + 1);
  const auto said = outcomes(1, [&](int) {
    Net mine(1);
    ProcessGroup members(group[0], names(1));
    DistributedDataParallel ddp(mine, members);
    const Context context(group[0]);
    const auto taking = context.container()->intercept_gradients(
        context.id(), [](const auto&, const Tensor&, const Gradients&) { return false; });
    ddp.backward(context, mine.loss(group[0], batch(0)));
  });
  BOOST_TEST(has(said[0], "another DistributedDataParallel already intercepts the gradients of context"), said[0]);
}

BOOST_AUTO_TEST_SUITE_END()
