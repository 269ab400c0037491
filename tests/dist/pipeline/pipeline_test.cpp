// A model cut into stages on several workers and run by each schedule, compared with the undivided model.
#include "tendril/dist/pipeline/pipeline.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <sstream>

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/random.h"
#include "tests/dist/group.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(pipeline)

using namespace dist_test;
using namespace tendril::dist::pipeline;
using tendril::testing::test_seed;

namespace dist_pipeline {

struct Layer : nn::Module {
  Layer(int64_t in, int64_t out, uint64_t seed)
      : generator(test_seed(seed)), linear(in, out, {.dtype = kFloat64, .generator = generator}) {
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x) {
    if (fails_in_forward) throw std::runtime_error("this layer fails in forward");
    Tensor y = linear(x).tanh();
    if (fails_in_backward) {
      autograd::register_hook(
          y, [](const Tensor&) -> Tensor { throw std::runtime_error("this layer fails in backward"); });
    }
    return y;
  }
  Generator generator;
  nn::Linear linear;
  static inline std::atomic<bool> fails_in_forward{false}, fails_in_backward{false};
};
struct Plain : Layer {  // never fails
  using Layer::Layer;
  Tensor forward(const Tensor& x) { return linear(x).tanh(); }
};
/// A layer of which one forward can be held until the test releases it.
template <int which>
struct Held : Layer {
  using Layer::Layer;
  Tensor forward(const Tensor& x) {
    Tensor y = linear(x).tanh();
    if (countdown > 0 && --countdown == 0) {
      is_held = true;
      is_held.wait(true);
    }
    return y;
  }
  struct Hold {  // holds the n-th forward from now on, at most until this object ends
    explicit Hold(int n) { countdown = n; }
    ~Hold() { let_go(); }
  };
  static void let_go() {
    is_held = false;
    is_held.notify_all();
  }
  static inline std::atomic<int> countdown{0};
  static inline std::atomic<bool> is_held{false};
};
Tensor mean_square(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }
Tensor no_number(const Tensor& output, const Tensor& target) { return output - target; }
Tensor undefined_loss(const Tensor&, const Tensor&) { return {}; }
struct Frozen : Plain {
  Frozen(int64_t in, int64_t out, uint64_t seed) : Plain(in, out, seed) { requires_grad_(false); }
};
struct Detached : Plain {
  using Plain::Plain;
  Tensor forward(const Tensor& x) { return Plain::forward(x).detach(); }
};
struct Undefined : Plain {
  using Plain::Plain;
  Tensor forward(const Tensor&) { return {}; }
};
/// Its second forward waits until a forward of Held<0> is held, then throws.
struct FailsTheSecondTime : Plain {
  using Plain::Plain;
  Tensor forward(const Tensor& x) {
    if (++times == 2) {
      if (!test::holds_within(60s, [] { return Held<0>::is_held.load(); })) throw std::logic_error("nothing is held");
      throw std::runtime_error("the second forward fails");
    }
    return Plain::forward(x);
  }
  int times = 0;
};
/// Ignores the values of its input.
struct Indifferent : Plain {
  using Plain::Plain;
  Tensor forward(const Tensor& x) { return Plain::forward(ones_like(x)); }
};

constexpr int64_t kWidths[] = {3, 5, 4, 6, 2};

std::vector<rpc::RRef<Stage>> stages_of(const Group& group, int workers, int count) {
  std::vector<rpc::RRef<Stage>> stages;
  for (int s = 0; s < count; ++s) {
    const int to = 1 + s % workers;
    const int64_t in = kWidths[s], out = kWidths[s + 1];
    const auto seed = static_cast<uint64_t>(s);
    stages.push_back(s + 1 < count ? make_stage<Plain>(group[0], to, in, out, seed)
                                   : make_loss_stage<Layer, &mean_square>(group[0], to, in, out, seed));
  }
  return stages;
}

}  // namespace dist_pipeline
using namespace dist_pipeline;

BOOST_AUTO_TEST_CASE(training_matches_the_whole_model) {
  const Group group(4, {.num_worker_threads = 1});
  for (const Schedule& plan :
       {gpipe(3, 4), one_forward_one_backward(3, 7), one_forward_one_backward(1, 2), interleaved(2, 4, 2)}) {
    for (const bool checkpoint : {false, true}) {
      Pipeline model(group[0], stages_of(group, plan.workers, plan.stages), plan, {.checkpoint = checkpoint});
      std::vector<std::unique_ptr<Plain>> layers;
      std::vector<Tensor> params;
      for (int s = 0; s < plan.stages; ++s) {
        layers.push_back(std::make_unique<Plain>(kWidths[s], kWidths[s + 1], static_cast<uint64_t>(s)));
        for (const Tensor& param : layers.back()->parameters()) params.push_back(param);
      }
      dist::DistributedOptimizer<optim::SGD> opt(group[0], model.parameter_rrefs(), {.lr = 0.5});
      optim::SGD sgd(params, {.lr = 0.5});
      Generator generator(test_seed());
      for (int step = 0; step < 3; ++step) {
        const Tensor x = randn({9, 3}, generator, {.dtype = kFloat64});
        const Tensor target = randn({9, kWidths[plan.stages]}, generator, {.dtype = kFloat64});
        Tensor y = x;
        for (const auto& layer : layers) y = layer->forward(y);
        const Tensor loss = mse_loss(y, target);
        sgd.zero_grad();
        loss.backward();
        sgd.step();
        const Context context(group[0]);
        BOOST_TEST(model.train(context, x, target) == loss.item<double>(), boost::test_tools::tolerance(1e-12));
        opt.step(context);
        const Report& report = model.report();
        BOOST_TEST(report.stages.size() == static_cast<std::size_t>(plan.stages));
        for (const StageTime& one : report.stages) {
          BOOST_TEST(one.forward > 0);
          BOOST_TEST(one.backward > 0);
          BOOST_TEST(one.busy() + one.receiving + one.sending <= report.duration);
        }
        BOOST_TEST(report.idle_share() > 0);
        BOOST_TEST(report.idle_share() < 1);
      }
    }
  }
}

namespace dist_pipeline {

/// Keeps four tensors of its input's size for the backward; with activation checkpointing, only its input.
struct Deep : nn::Module {
  explicit Deep(double value) {
    register_parameter("w", w = full({}, value, {.dtype = kFloat64, .requires_grad = true}));
  }
  Tensor forward(const Tensor& x) const { return (x * w).tanh().tanh().tanh(); }
  Tensor w;
};
std::atomic<std::size_t> most_bytes{0};
Tensor mean_while_most_is_kept(const Tensor& output, const Tensor& target) {
  most_bytes = std::max<std::size_t>(most_bytes, memory::stats().live_bytes);  // gpipe runs all forwards first
  return mse_loss(output, target);
}

}  // namespace dist_pipeline

BOOST_AUTO_TEST_CASE(activation_checkpointing_keeps_fewer_bytes) {
  const Group group(3);
  constexpr int kMicroBatches = 6;
  const Tensor x = full({64 * kMicroBatches, 512}, 0.5, {.dtype = kFloat64}), target = zeros_like(x);
  std::size_t kept[2];
  double losses[2];
  for (const bool checkpoint : {false, true}) {
    Pipeline model(
        group[0],
        {make_stage<Deep>(group[0], 1, 0.5), make_loss_stage<Deep, &mean_while_most_is_kept>(group[0], 2, 0.25)},
        gpipe(2, kMicroBatches), {.checkpoint = checkpoint});
    const Context context(group[0]);
    const std::size_t before = memory::stats().live_bytes;
    most_bytes = before;
    losses[checkpoint] = model.train(context, x, target);
    kept[checkpoint] = most_bytes - before;
  }
  BOOST_TEST(losses[0] == losses[1]);
  BOOST_TEST_MESSAGE("kept " << kept[0] << " bytes, with checkpointing " << kept[1]);
  if (memory::stats().live_bytes == 0) return;  // sanitizer builds do not count allocations
  BOOST_TEST(kept[0] > 2 * kMicroBatches * 3 * 64 * 512 * sizeof(double));
  BOOST_TEST(4 * kept[1] < 3 * kept[0]);
}

BOOST_AUTO_TEST_CASE(failed_stage_is_named_and_training_resumes) {
  const Group group(4);
  Pipeline model(group[0], stages_of(group, 3, 3), one_forward_one_backward(3, 4));
  const Tensor x = ones({4, 3}, {.dtype = kFloat64}), target = ones({4, 6}, {.dtype = kFloat64});
  for (const bool forward : {true, false}) {
    (forward ? Layer::fails_in_forward : Layer::fails_in_backward) = true;
    const Context context(group[0]);
    BOOST_CHECK_EXCEPTION(model.train(context, x, target), rpc::RpcError,
                          says("worker 'w3'", forward ? "fails in forward" : "fails in backward"));
    Layer::fails_in_forward = Layer::fails_in_backward = false;
  }
  const Context context(group[0]);
  BOOST_TEST(model.train(context, x, target) > 0);
}

BOOST_AUTO_TEST_CASE(only_last_stage_has_a_scalar_loss) {
  const Group group(3);
  const Tensor x = ones({4, 3}, {.dtype = kFloat64}), target = ones({4, 4}, {.dtype = kFloat64});
  const auto first = [&] { return make_stage<Plain>(group[0], 1, 3, 5, uint64_t{1}); };
  const auto last = [&] { return make_loss_stage<Layer, &mean_square>(group[0], 2, 5, 4, uint64_t{2}); };
  const auto error = [&](const std::vector<rpc::RRef<Stage>>& stages) {
    Pipeline model(group[0], stages, gpipe(2, 2), {.timeout = std::chrono::seconds(60)});
    const Context context(group[0]);
    try {
      model.train(context, x, target);
    } catch (const rpc::RemoteError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto before = std::chrono::steady_clock::now();
  BOOST_TEST(says("worker 'w1'", "stage 0 has a loss", "the last stage only")(
      Error(error({make_loss_stage<Layer, &mean_square>(group[0], 1, 3, 5, uint64_t{1}), last()}))));
  BOOST_TEST(says("worker 'w2'",
                  "stage 1 has no loss")(Error(error({first(), make_stage<Plain>(group[0], 2, 5, 4, uint64_t{2})}))));
  BOOST_TEST(says("worker 'w2'", "loss of the last stage", "[2, 4]", "one number")(
      Error(error({first(), make_loss_stage<Layer, &no_number>(group[0], 2, 5, 4, uint64_t{2})}))));
  BOOST_TEST(says("worker 'w2'", "the loss of the last stage is undefined")(
      Error(error({first(), make_loss_stage<Layer, &undefined_loss>(group[0], 2, 5, 4, uint64_t{2})}))));
  BOOST_TEST(error({first(), last()}) == "");
  BOOST_TEST((std::chrono::steady_clock::now() - before < std::chrono::seconds(50)));  // none waited for its deadline
}

BOOST_AUTO_TEST_CASE(undefined_or_detached_output_is_rejected) {
  const Group group(3);
  const Tensor x = ones({4, 3}, {.dtype = kFloat64}), target = ones({4, 4}, {.dtype = kFloat64});
  const auto last = make_loss_stage<Layer, &mean_square>(group[0], 2, 5, 4, uint64_t{2});
  const auto refused = [&](const rpc::RRef<Stage>& first, const rpc::RRef<Stage>& second, const auto&... texts) {
    Pipeline model(group[0], {first, second}, gpipe(2, 2), {.timeout = std::chrono::seconds(60)});
    const Context context(group[0]);
    BOOST_CHECK_EXCEPTION(model.train(context, x, target), rpc::RemoteError, says(texts...));
  };
  refused(make_stage<Undefined>(group[0], 1, 3, 5, uint64_t{1}), last, "worker 'w1'", "output of stage 0 is undefined");
  refused(make_stage<Detached>(group[0], 1, 3, 5, uint64_t{1}), last, "worker 'w1'",
          "output of stage 0 has no history");
  refused(make_stage<Plain>(group[0], 1, 3, 5, uint64_t{1}),
          make_loss_stage<Detached, &mean_square>(group[0], 2, 5, 4, uint64_t{2}), "worker 'w2'",
          "output of stage 1 has no history");
}

BOOST_AUTO_TEST_CASE(first_stages_may_be_frozen) {
  const Group group(4);
  Generator generator(test_seed());
  const Tensor x = randn({4, 3}, generator, {.dtype = kFloat64}),
               target = randn({4, 6}, generator, {.dtype = kFloat64});
  for (const bool checkpoint : {false, true}) {
    Pipeline model(
        group[0],
        {make_stage<Frozen>(group[0], 1, 3, 5, uint64_t{0}), make_stage<Frozen>(group[0], 2, 5, 4, uint64_t{1}),
         make_loss_stage<Plain, &mean_square>(group[0], 3, 4, 6, uint64_t{2})},
        one_forward_one_backward(3, 2), {.checkpoint = checkpoint, .timeout = std::chrono::seconds(60)});
    dist::DistributedOptimizer<optim::SGD> opt(group[0], model.parameter_rrefs(), {.lr = 0.5});
    Frozen first(3, 5, 0), second(5, 4, 1);
    Plain third(4, 6, 2);
    optim::SGD sgd(third.parameters(), {.lr = 0.5});
    for (int step = 0; step < 3; ++step) {
      const Tensor loss = mse_loss(third.forward(second.forward(first.forward(x))), target);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
      const Context context(group[0]);
      BOOST_TEST(model.train(context, x, target) == loss.item<double>(), boost::test_tools::tolerance(1e-12));
      opt.step(context);
    }
  }
}

BOOST_AUTO_TEST_CASE(independent_stage_leaves_earlier_gradients_undefined) {
  const Group group(4);
  const Tensor x = ones({4, 3}, {.dtype = kFloat64}), target = zeros({4, 6}, {.dtype = kFloat64});
  Pipeline model(group[0],
                 {make_stage<Plain>(group[0], 1, 3, 5, uint64_t{0}), make_stage<Plain>(group[0], 2, 5, 4, uint64_t{1}),
                  make_loss_stage<Indifferent, &mean_square>(group[0], 3, 4, 6, uint64_t{2})},
                 gpipe(3, 2), {.timeout = std::chrono::seconds(60)});
  dist::DistributedOptimizer<optim::SGD> opt(group[0], model.parameter_rrefs(), {.lr = 0.5});
  const auto parameters = [&] {
    std::vector<Values> all;
    for (const auto& param : model.parameter_rrefs()) all.push_back(values(param.to_here()));
    return all;
  };
  const std::vector<Values> before = parameters();
  const Context context(group[0]);
  model.train(context, x, target);
  opt.step(context);
  const std::vector<Values> after = parameters();
  BOOST_REQUIRE(after.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST((after[i] == before[i]) == (i < 4), "parameter " << i);
}

BOOST_AUTO_TEST_CASE(micro_batches_may_differ_in_size) {
  const Group group(3);
  Pipeline model(group[0], stages_of(group, 2, 2), gpipe(2, 3));
  Generator generator(test_seed());
  const Tensor x = randn({9, 3}, generator, {.dtype = kFloat64}),
               target = randn({9, 4}, generator, {.dtype = kFloat64});
  const Context context(group[0]);
  const double even = model.train(context, x, target);
  BOOST_TEST(model.train(context, x, target, {6, 1, 2}) == even, boost::test_tools::tolerance(1e-12));
  const auto refused = [&](const std::vector<int64_t>& sizes, const auto&... texts) {
    BOOST_CHECK_EXCEPTION(model.train(context, x, target, sizes), Error, says("Pipeline::train", texts...));
  };
  refused({4, 5}, "got 2", "3 micro-batches");
  refused({4, 4, 2}, "a micro-batch of 2 where 1 of the batch of 9 are left");
  refused({4, 0, 5}, "a micro-batch of 0");
  refused({4, -1, 6}, "a micro-batch of -1");
  refused({4, 2, 2}, "leave 1 of the batch of 9");
  BOOST_TEST(model.train(context, x, target) == even, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(report_lists_stage_times) {
  const Report report{.duration = 2,
                      .workers = 2,
                      .stages = {{0, "w1", .25, .75, .5, .125, .375}, {1, "w2", .5, .5, 1, 0, 0}},
                      .ideal_idle_share = 0.25};
  BOOST_TEST(report.idle_share() == 0.5);
  BOOST_TEST(
      report.text() ==
      "stage 0 on w1: busy 1.000 s (forward 0.250, backward 0.750), waiting to receive 0.500, to send 0.125, idle "
      "0.375\n"
      "stage 1 on w2: busy 1.000 s (forward 0.500, backward 0.500), waiting to receive 1.000, to send 0.000, idle "
      "0.000\n"
      "idle 50.0% of 2.000 s, the schedule alone 25.0%\n");
  std::ostringstream printed;
  printed << report;
  BOOST_TEST(printed.str() == report.text());
  BOOST_TEST(Report{}.idle_share() == 0);
}

BOOST_AUTO_TEST_CASE(lost_worker_ends_the_batch) {
  const Group group(4);
  auto stages = stages_of(group, 3, 3);
  stages[1] = make_stage<Held<0>>(group[0], 2, kWidths[1], kWidths[2], uint64_t{1});
  Pipeline model(group[0], stages, gpipe(3, 4));
  const Tensor x = ones({4, 3}, {.dtype = kFloat64}), y = ones({4, 6}, {.dtype = kFloat64});
  std::future<void> trained;
  auto start = rpc::Clock::now();
  {
    const Held<0>::Hold third(3);  // the third of four micro-batches; w3 has the earlier ones
    trained = std::async(std::launch::async, [&] {
      const Context context(group[0]);
      model.train(context, x, y);
    });
    BOOST_REQUIRE(Cluster::eventually([&] { return Held<0>::is_held.load(); }));
    start = rpc::Clock::now();
    group.cut(0, 2);
    BOOST_TEST((trained.wait_for(30s) == std::future_status::ready));  // although the stage is still held
  }
  BOOST_CHECK_THROW(trained.get(), rpc::PeerLostError);
  BOOST_TEST((rpc::Clock::now() - start < 30s));
}

BOOST_AUTO_TEST_CASE(late_forward_does_not_affect_next_batch) {
  const Group group(3, {.num_worker_threads = 4});
  using First = Held<0>;
  using Last = Held<1>;
  Generator generator(test_seed());
  const Tensor x = randn({4, 3}, generator, {.dtype = kFloat64}), y = randn({4, 4}, generator, {.dtype = kFloat64});
  const auto handlers = [&](int rank) { return group[rank].handlers_running().size(); };
  std::vector<Values> params[2];
  for (const bool disturbed : {false, true}) {
    std::vector<rpc::RRef<Stage>> stages{make_stage<First>(group[0], 1, 3, 5, uint64_t{1}),
                                         make_loss_stage<Last, &mean_square>(group[0], 2, 5, 4, uint64_t{2})};
    Pipeline model(group[0], stages, gpipe(2, 2));
    const First::Hold first(disturbed ? 2 : 0);  // the old batch's second forward
    if (disturbed) {
      Pipeline impatient(group[0], stages, gpipe(2, 2), {.timeout = 1s});
      const Context context(group[0]);
      BOOST_CHECK_THROW(impatient.train(context, ones({4, 3}, {.dtype = kFloat64}), y), rpc::RpcError);
      BOOST_REQUIRE(Cluster::eventually([&] { return First::is_held.load() && handlers(2) == 0; }));
    }
    const Last::Hold last(disturbed ? 1 : 0);  // before the new batch's backward
    auto trained = std::async(std::launch::async, [&] {
      dist::DistributedOptimizer<optim::SGD> opt(group[0], model.parameter_rrefs(), {.lr = 1});
      const Context context(group[0]);
      model.train(context, x, y);
      opt.step(context);
    });
    if (disturbed) {
      BOOST_TEST(Cluster::eventually([&] { return Last::is_held.load(); }));
      First::let_go();
      BOOST_TEST(Cluster::eventually([&] { return handlers(1) == 1; }));
      Last::let_go();
    }
    trained.get();
    for (const auto& param : model.parameter_rrefs()) params[disturbed].push_back(values(param.to_here()));
  }
  BOOST_TEST((params[0] == params[1]));
}

BOOST_AUTO_TEST_CASE(cancel_ignores_batches_of_other_drivers) {
  const Group group(3, {.num_worker_threads = 4});
  const std::vector<rpc::RRef<Stage>> stages{make_stage<Held<0>>(group[0], 1, 3, 5, uint64_t{1}),
                                             make_loss_stage<Plain, &mean_square>(group[0], 2, 5, 4, uint64_t{2})};
  Pipeline model(group[0], stages, gpipe(2, 2), {.timeout = 20s});
  // Another worker has run many more batches. Their numbers are unrelated to those of `model`.
  const BatchId of_another_driver{.driver = 2, .generation = 1, .number = 1 << 20};
  const Held<0>::Hold first(1);
  auto trained = std::async(std::launch::async, [&] {
    const Context context(group[0]);
    model.train(context, ones({4, 3}, {.dtype = kFloat64}), ones({4, 4}, {.dtype = kFloat64}));
  });
  BOOST_TEST(Cluster::eventually([&] { return Held<0>::is_held && group[1].handlers_running().size() == 1; }));
  stages[0].rpc_sync<&Stage::cancel>(of_another_driver, std::string("its caller cancelled it"));
  Held<0>::let_go();
  BOOST_CHECK_NO_THROW(trained.get());
}

BOOST_AUTO_TEST_CASE(lost_connection_between_stages_ends_the_batch) {
  const Group group(3);
  Pipeline model(group[0],
                 {make_stage<Held<0>>(group[0], 1, 3, 5, uint64_t{1}),
                  make_loss_stage<Plain, &mean_square>(group[0], 2, 5, 4, uint64_t{2})},
                 gpipe(2, 2), {.timeout = 60s});
  const Held<0>::Hold first(1);
  const auto before = std::chrono::steady_clock::now();
  auto trained = std::async(std::launch::async, [&] {
    const Context context(group[0]);
    model.train(context, ones({4, 3}, {.dtype = kFloat64}), ones({4, 4}, {.dtype = kFloat64}));
  });
  BOOST_TEST(Cluster::eventually([&] { return Held<0>::is_held && group[2].handlers_running().size() == 1; }));
  group.cut(1, 2);
  Held<0>::let_go();
  // The error comes from w1, which could not send to w2, or from w2, if it had not yet received its reference to w1's
  // stage.
  BOOST_CHECK_EXCEPTION(trained.get(), rpc::RpcError, says("worker 'w1'", "worker 'w2'"));
  BOOST_TEST((std::chrono::steady_clock::now() - before < 50s));
}

BOOST_AUTO_TEST_CASE(busy_worker_stops_at_its_next_wait) {
  const Group group(3, {.num_worker_threads = 1});
  Pipeline model(group[0],
                 {make_stage<FailsTheSecondTime>(group[0], 1, 3, 5, uint64_t{1}),
                  make_loss_stage<Held<0>, &mean_square>(group[0], 2, 5, 4, uint64_t{2})},
                 gpipe(2, 2), {.timeout = 60s});
  const Held<0>::Hold first(1);
  const auto before = std::chrono::steady_clock::now();
  auto trained = std::async(std::launch::async, [&] {
    const Context context(group[0]);
    model.train(context, ones({4, 3}, {.dtype = kFloat64}), ones({4, 4}, {.dtype = kFloat64}));
  });
  BOOST_TEST(Cluster::eventually([&] { return Held<0>::is_held && group[1].handlers_running().empty(); }));
  Held<0>::let_go();
  BOOST_CHECK_EXCEPTION(trained.get(), rpc::RemoteError, says("worker 'w1'", "the second forward fails"));
  BOOST_TEST((std::chrono::steady_clock::now() - before < 50s));
}

namespace dist_pipeline {

/// Records the timeout of each request of a batch that its worker receives.
struct RecordsTimeouts final : rpc::MessageHook {
  struct Request {
    rpc::WorkerId from;
    uint64_t timeout_us;  // 0: none
  };
  void before_send(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_receive(const rpc::WorkerInfo& from, rpc::Message& request) override {
    const std::string name = rpc::name_of_function(request.function);
    const std::lock_guard lock(mutex);
    if (test::contains(name, "Stage::put")) puts.push_back({from.id, request.timeout_us});
    if (test::contains(name, "run_stages")) runs.push_back({from.id, request.timeout_us});
  }
  void before_reply(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_reply(const rpc::WorkerInfo&, rpc::Message&) override {}

  std::mutex mutex;
  std::vector<Request> puts, runs;
};

}  // namespace dist_pipeline

BOOST_AUTO_TEST_CASE(no_batch_timeout_means_none_on_messages) {
  const Group group(3);
  const auto records = std::make_shared<RecordsTimeouts>();
  for (const int stage : {1, 2}) group[stage].add_hook(records);
  Pipeline model(group[0],
                 {make_stage<Plain>(group[0], 1, 3, 5, uint64_t{1}),
                  make_loss_stage<Plain, &mean_square>(group[0], 2, 5, 4, uint64_t{2})},
                 gpipe(2, 2), {.timeout = 0s});
  {
    const Context context(group[0]);
    BOOST_TEST(model.train(context, ones({4, 3}, {.dtype = kFloat64}), ones({4, 4}, {.dtype = kFloat64})) > 0);
  }
  // A call without its own timeout uses the agent's.
  BOOST_TEST(group[1].rpc_timeout().count() > 0);
  const std::lock_guard lock(records->mutex);
  BOOST_TEST(records->runs.size() == 2U);
  // Two micro-batches: inputs and targets from w0, activations from w1, gradients from w2.
  for (const auto& [from, count] : {std::pair{0, 4}, {1, 2}, {2, 2}})
    BOOST_TEST(std::ranges::count(records->puts, from, &RecordsTimeouts::Request::from) == count, "from w" << from);
  for (const auto& requests : {records->puts, records->runs})
    for (const auto& [from, timeout_us] : requests) BOOST_TEST(timeout_us == 0U, "from w" << from);
}

BOOST_AUTO_TEST_CASE(stage_stops_when_its_caller_is_lost) {
  const Group group(3);
  Pipeline model(group[0],
                 {make_stage<Held<0>>(group[0], 1, 3, 5, uint64_t{1}),
                  make_loss_stage<Plain, &mean_square>(group[0], 2, 5, 4, uint64_t{2})},
                 gpipe(2, 2));
  const Held<0>::Hold first(1);
  auto trained = std::async(std::launch::async, [&] {
    const Context context(group[0]);
    model.train(context, ones({4, 3}, {.dtype = kFloat64}), ones({4, 4}, {.dtype = kFloat64}));
  });
  BOOST_TEST(Cluster::eventually([&] { return Held<0>::is_held && group[2].handlers_running().size() == 1; }));
  group.cut(0, 2);
  BOOST_TEST(Cluster::eventually([&] { return group[2].handlers_running().empty(); }));
  Held<0>::let_go();
  BOOST_CHECK_THROW(trained.get(), rpc::PeerLostError);
}

BOOST_AUTO_TEST_CASE(invalid_pipelines_are_rejected_before_running) {
  const Group group(4);
  Schedule bad = gpipe(3, 2);
  std::swap(bad.of[0].front(), bad.of[0].back());
  BOOST_CHECK_EXCEPTION(Pipeline(group[0], stages_of(group, 3, 3), bad), Error, says("never ends"));
  BOOST_CHECK_EXCEPTION(Pipeline(group[0], stages_of(group, 3, 3), gpipe(2, 2)), Error,
                        says("3 stages", "'gpipe' has 2"));
  BOOST_CHECK_EXCEPTION(Pipeline(group[0], stages_of(group, 3, 4), interleaved(2, 2, 2)), Error,
                        says("stage 2 lives on worker 'w3', expected 'w1'"));
  Pipeline model(group[0], stages_of(group, 3, 3), gpipe(3, 4));
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(model.train(context, ones({3, 3}), ones({3, 6})), Error, says("batch of 3", "4 micro-batches"));
  BOOST_CHECK_EXCEPTION(model.train(context, ones({4, 3}), ones({3, 6})), Error, says("targets", "4"));
}

BOOST_AUTO_TEST_SUITE_END()
