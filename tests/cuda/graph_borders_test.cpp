// What a recorded step shares with the work around it: caches, streams, scales, counts of steps, calls of rpc.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/grad_scaler.h"
#include "tendril/nn/optim/lr_scheduler.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/index_owner.h"
#include "tendril/tensor/raw.h"
#include "tests/cuda/compare.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

auto says(const std::string& text) {
  return [text](const Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return std::string(error.what()).find(text) != std::string::npos;
  };
}

Tensor leaf(int64_t count, double value) { return raw::full({count}, value, kFloat32, kGPU).requires_grad_(); }
double first(const Tensor& x) { return raw::to(x, kCPU).to_vector<float>()[0]; }

thread_local cuda::CallStamp stamp;
/// While it lives, this thread serves a call.
struct Serving {
  Serving() {
    stamp = {1, 2, 3};
    cuda::set_call_of_thread([]() noexcept { return stamp; });
  }
  ~Serving() {
    cuda::end_index_work(stamp);
    stamp = {};
    cuda::set_call_of_thread(nullptr);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(graph_borders)

BOOST_AUTO_TEST_CASE(steps_of_half_types_are_replayed) {
  for (const DType half : {kFloat16, kBFloat16}) {
    for (const bool master : {false, true}) {
      const auto make = [&] {
        const Tensor parameter = raw::ones({300}, half, kGPU).requires_grad_();
        Tensor(parameter).set_grad(raw::full({300}, 0.5, half, kGPU));
        return parameter;
      };
      const Tensor ours = make(), theirs = make();
      optim::Adam recorded({ours}, {.lr = 1e-3, .master_weights = master});
      optim::Adam plain({theirs}, {.lr = 1e-3, .master_weights = master});
      recorded.step();
      plain.step();
      cuda::Graph graph;
      graph.capture([&] { recorded.step(); });
      for (int i = 0; i < 5; ++i) {
        graph.replay();
        plain.step();
      }
      BOOST_TEST(raw::equal(raw::to(ours.detach(), kCPU), raw::to(theirs.detach(), kCPU)));
      BOOST_TEST(
          raw::equal(raw::to(recorded.state(ours).exp_avg_sq, kCPU), raw::to(plain.state(theirs).exp_avg_sq, kCPU)));
      BOOST_TEST(recorded.master_weight(ours).defined() == master);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loss_is_scaled_by_the_scale_of_each_replay) {
  const Tensor w = leaf(10, 2);
  optim::SGD sgd({w}, {.lr = 0.25});
  optim::GradScaler scaler({.init_scale = 4});
  cuda::Graph graph;
  graph.capture([&] {
    sgd.zero_grad();
    scaler.scale((w * w).sum()).backward();
  });
  double expected = 2;
  for (const double scale : {4.0, 16.0, 2.0}) {
    if (scale != scaler.get_scale()) scaler.update(scale);
    graph.replay();
    BOOST_TEST(first(w.grad()) == 2 * expected * scale);
    BOOST_TEST(scaler.step(sgd));
    expected -= 0.25 * 2 * expected;
    BOOST_TEST(first(w) == expected);
  }
}

BOOST_AUTO_TEST_CASE(what_counts_on_the_host_or_goes_to_another_stream_is_refused) {
  const Tensor w = leaf(10, 2);
  optim::SGD sgd({w}, {.lr = 0.5});
  optim::lr_scheduler::StepLR schedule(sgd, {.step_size = 1});
  optim::lr_scheduler::SequentialLR chain({&schedule}, {});
  optim::lr_scheduler::ReduceLROnPlateau plateau(sgd);
  optim::GradScaler scaler;
  cuda::Event event;
  cuda::Event before;
  before.record();
  const std::vector<std::pair<std::string, std::function<void()>>> refused = {
      {"GradScaler::unscale_: cannot be recorded in a cuda::Graph", [&] { scaler.unscale_(sgd); }},
      {"GradScaler::step: cannot be recorded in a cuda::Graph", [&] { scaler.step(sgd); }},
      {"GradScaler::update: cannot be recorded in a cuda::Graph", [&] { scaler.update(); }},
      {"LRScheduler::step: cannot be recorded in a cuda::Graph", [&] { schedule.step(); }},
      {"SequentialLR::step: cannot be recorded in a cuda::Graph", [&] { chain.step(); }},
      {"ReduceLROnPlateau::step: cannot be recorded in a cuda::Graph", [&] { plateau.step(1); }},
      {"Event::record: cannot be recorded in a cuda::Graph: a step is work of one stream", [&] { event.record(); }},
      {"Stream::wait: cannot be recorded in a cuda::Graph: a step is work of one stream",
       [&] { cuda::Stream::current().wait(before); }}};
  cuda::Graph graph;
  for (const auto& [text, step] : refused) {
    BOOST_TEST_CONTEXT(text) { BOOST_CHECK_EXCEPTION(graph.capture(step), Error, says(text)); }
  }
  BOOST_TEST(sgd.lr() == 0.5);
}

BOOST_AUTO_TEST_CASE(casts_of_parameters_are_kept_on_either_side_of_a_record_and_not_across) {
  nn::Linear linear(64, 64);
  linear.to(kGPU);
  const Tensor x = raw::full({8, 64}, 0.5, kFloat32, kGPU);
  Tensor outside, recorded, later;
  cuda::Graph graph;
  {
    const autograd::Autocast half;
    const NoGrad no_grad;
    outside = linear.forward(x);
    graph.capture([&] { recorded = linear.forward(x); });
    later = linear.forward(x);
  }
  BOOST_TEST(raw::equal(later, outside));
  std::vector<Tensor> others;  // in memory that casts may have had
  for (int i = 0; i < 8; ++i) others.push_back(raw::full({64, 64}, 7, kBFloat16, kGPU));
  graph.replay();
  BOOST_TEST(raw::equal(recorded, outside));

  cuda::Graph before;
  const autograd::Autocast half;
  const NoGrad no_grad;
  before.capture([&] { recorded = linear.forward(x); });
  BOOST_TEST(raw::equal(linear.forward(x), outside));
}

BOOST_AUTO_TEST_CASE(within_a_call_a_graph_is_replayed_that_looks_at_no_index) {
  const Tensor x = raw::full({4}, 1, kFloat32, kGPU);
  const Tensor index = raw::to(raw::from_data(std::vector<int64_t>{1, 2}, {2}), kGPU);
  cuda::Graph adds, picks;
  Tensor picked;
  adds.capture([&] { raw::binary_(Binary::add, x, 1); });
  picks.capture([&] { picked = x.index_select(0, index); });
  picks.replay();
  {
    const Serving call;
    adds.replay();
    BOOST_CHECK_EXCEPTION(picks.replay(), Error, says("Graph::replay: it looks at indices"));
  }
  picks.replay();
  BOOST_TEST(first(picked) == 2);
  picks.capture([&] { raw::binary_(Binary::add, x, 1); });
  const Serving call;
  picks.replay();
}

BOOST_AUTO_TEST_CASE(the_stream_of_a_graph_serves_graphs_alone) {
  const Tensor x = raw::full({4}, 1, kFloat32, kGPU);
  const auto stream_of = [&](cuda::Graph& graph) {
    void* queue = nullptr;
    graph.capture([&] {
      queue = cuda::Stream::current().native();
      raw::binary_(Binary::add, x, 1);
    });
    return queue;
  };
  void* of_first = nullptr;
  {
    cuda::Graph first;
    of_first = stream_of(first);
  }
  cuda::synchronize();  // nothing is left in it, so that it may serve again
  std::vector<cuda::Stream> others;
  for (int i = 0; i < 40; ++i) {
    others.emplace_back();
    BOOST_TEST(others.back().native() != of_first);
  }
}

BOOST_AUTO_TEST_CASE(a_replay_that_is_refused_counts_no_step) {
  const Tensor a = leaf(10, 1), b = leaf(10, 1);
  optim::Adam adam({a, b}, 0.1);
  const auto step = [](optim::Adam& optimizer, const std::vector<Tensor>& of) {
    optimizer.zero_grad();
    for (const Tensor& parameter : of) parameter.set_grad(raw::full({10}, 1, kFloat32, kGPU));
    optimizer.step();
  };
  step(adam, {a});
  step(adam, {a, b});  // steps 2 and 1: two runs of the kernel
  cuda::Graph graph;
  graph.capture([&] { adam.step(); });
  const Tensor c = leaf(10, 1), d = leaf(10, 1);
  optim::Adam even({c, d}, 0.1);
  for (int i = 0; i < 5; ++i) step(even, {c, d});
  adam.load_state_dict(even.state_dict());
  BOOST_CHECK_EXCEPTION(graph.replay(), Error, says("record the step again"));
  BOOST_TEST(adam.state(a).step == 5);
  BOOST_TEST(adam.state(b).step == 5);
}

BOOST_AUTO_TEST_CASE(a_replay_says_which_parameter_was_put_elsewhere) {
  nn::Linear linear(4, 4);
  linear.to(kGPU);
  optim::Adam adam(linear.parameters(), 0.1);
  const auto step = [&] {
    adam.zero_grad();
    linear.forward(raw::full({2, 4}, 1, kFloat32, kGPU)).sum().backward();
    adam.step();
  };
  step();
  cuda::Graph graph;
  graph.capture(step);
  graph.replay();
  linear.to(kCPU);
  BOOST_CHECK_EXCEPTION(graph.replay(), Error, says("Adam::step: parameter 0 is on cpu, expected cuda:0"));
  const Tensor weights_place = raw::empty({4, 4}, kFloat32, kGPU);
  linear.to(kGPU);
  BOOST_CHECK_EXCEPTION(graph.replay(), Error, says("Adam::step: parameter 0 has other memory than when"));
  BOOST_TEST(adam.state(linear.parameters()[0]).step == 2);
}

BOOST_AUTO_TEST_SUITE_END()
