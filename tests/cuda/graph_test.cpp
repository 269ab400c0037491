// Training steps that are recorded once and issued again as a whole.
#include "tendril/tensor/cuda/runtime.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/flatten.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/pooling.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/cuda/compare.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

/// A small network with one of each kind of kernel: cuDNN's, cuBLAS's, ours.
struct Network {
  nn::Conv2d conv{1, 4, 3, {.padding = 1}};
  nn::BatchNorm2d norm{4};
  nn::Linear linear{4 * 4 * 4, 3};
  optim::SGD sgd;

  static std::vector<Tensor> all(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                                 const std::vector<Tensor>& c) {
    std::vector<Tensor> joined = a;
    joined.insert(joined.end(), b.begin(), b.end());
    joined.insert(joined.end(), c.begin(), c.end());
    return joined;
  }
  Network() : sgd(parameters_on_gpu(), {.lr = 0.1, .momentum = 0.9}) {}
  std::vector<Tensor> parameters_on_gpu() {
    for (nn::Module* module :
         {static_cast<nn::Module*>(&conv), static_cast<nn::Module*>(&norm), static_cast<nn::Module*>(&linear)}) {
      module->to(kGPU);
    }
    return all(conv.parameters(), norm.parameters(), linear.parameters());
  }

  Tensor step(const Tensor& x, const Tensor& labels) {
    sgd.zero_grad();
    const Tensor y = max_pool2d(norm.forward_relu(conv.forward(x)), 2);
    const Tensor loss = cross_entropy(linear.forward(y.flatten(1)), labels);
    loss.backward();
    sgd.step();
    return loss;
  }
};

Tensor images(int64_t seed) {
  Generator generator(static_cast<uint64_t>(seed));
  const Tensor x = raw::empty({6, 1, 8, 8});
  raw::normal_(x, 0, 1, generator);
  return x;
}
Tensor labels_of(int64_t seed) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 6; ++i) labels.push_back((i + seed) % 3);
  return raw::from_data(labels, {6});
}

auto says(const std::string& text) {
  return [text](const Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return std::string(error.what()).find(text) != std::string::npos;
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(graph)

BOOST_AUTO_TEST_CASE(a_training_step_is_replayed_with_what_its_inputs_hold_by_then) {
  manual_seed(3);
  Network here;
  manual_seed(3);
  Network recorded;
  const Tensor x = raw::empty({6, 1, 8, 8}, kFloat32, kGPU), labels = raw::empty({6}, kInt64, kGPU);
  const auto fill = [&](int64_t seed) {
    raw::copy_(x, images(seed));
    raw::copy_(labels, labels_of(seed));
  };
  fill(0);
  recorded.step(x, labels);
  cuda::Graph graph;
  Tensor loss;
  graph.capture([&] { loss = recorded.step(x, labels); });
  here.step(raw::to(images(0), kGPU), raw::to(labels_of(0), kGPU));
  for (int64_t seed = 1; seed < 6; ++seed) {
    fill(seed);
    graph.replay();
    const Tensor want = here.step(raw::to(images(seed), kGPU), raw::to(labels_of(seed), kGPU));
    check_close(loss, want, 1e-5, 1e-6);
    // What others take and leave meanwhile is not the graph's, and what the graph left free is nobody else's.
    cuda::empty_cache();
    for (int i = 0; i < 20; ++i) raw::fill_(raw::empty({1000 * (i + 1)}, kFloat32, kGPU), NAN);
  }
  check_close(recorded.linear.weight, here.linear.weight, 1e-5, 1e-6);
  check_close(recorded.conv.weight, here.conv.weight, 1e-5, 1e-6);
  check_close(recorded.norm.running_mean, here.norm.running_mean, 1e-5, 1e-6);
  BOOST_TEST(recorded.norm.num_batches_tracked.item<int64_t>() == here.norm.num_batches_tracked.item<int64_t>());
}

BOOST_AUTO_TEST_CASE(nothing_happens_while_it_is_recorded_and_replays_are_in_order_with_other_work) {
  const Tensor x = raw::to(raw::full({1000}, 1), kGPU), y = raw::zeros({1000}, kFloat32, kGPU);
  cuda::Graph graph;
  graph.capture([&] { raw::binary_(Binary::add, y, x); });
  BOOST_TEST(y.sum().item<double>() == 0);
  graph.replay();
  raw::binary_(Binary::mul, y, 10);
  graph.replay();
  BOOST_TEST(y.sum().item<double>() == 11'000);
  graph.capture([&] { raw::binary_(Binary::mul, y, 2); });  // again: the first is forgotten
  graph.replay();
  BOOST_TEST(y.sum().item<double>() == 22'000);
  cuda::Graph moved = std::move(graph);
  moved.replay();
  BOOST_TEST(y.sum().item<double>() == 44'000);
}

BOOST_AUTO_TEST_CASE(replays_on_other_streams_come_one_after_another) {
  const Tensor x = raw::ones({1000}, kFloat32, kGPU);
  const Tensor y = x * 1.0;
  cuda::Graph graph;
  graph.capture([&] { raw::copy_(x, (x * 3.0 - y) * 1.0); });  // by way of the graph's own memory
  {
    const cuda::Stream one(0), other(0);
    cuda::Event ready;
    ready.record();
    one.wait(ready);
    for (int i = 0; i < 6; ++i) {
      const cuda::StreamGuard guard(i % 2 == 0 ? one : other);
      graph.replay();
    }
    other.synchronize();
  }
  double expected = 1;
  for (int i = 0; i < 6; ++i) expected = expected * 3 - 1;
  BOOST_TEST(raw::to(x, kCPU).to_vector<float>().back() == static_cast<float>(expected));
}

BOOST_AUTO_TEST_CASE(memory_that_was_free_again_when_it_ended_stays_the_graphs) {
  constexpr int64_t kNumbers = 3 << 20;  // a segment of its own
  const Tensor x = raw::to(raw::full({kNumbers}, 1), kGPU), y = raw::zeros({kNumbers}, kFloat32, kGPU);
  const auto step = [&] { raw::copy_(y, raw::binary(Binary::add, x, 1)); };
  std::optional<cuda::Graph> graph(std::in_place);
  graph->capture(step);
  cuda::empty_cache();
  const Tensor other = raw::to(raw::full({kNumbers}, 5), kGPU);
  graph->replay();
  BOOST_TEST(y.sum().item<double>() == 2.0 * kNumbers);
  BOOST_TEST(other.sum().item<double>() == 5.0 * kNumbers);
  const int64_t held = cuda::memory_stats().reserved_bytes;
  graph.reset();
  cuda::empty_cache();
  BOOST_TEST(cuda::memory_stats().reserved_bytes <= held - 4 * kNumbers);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_replayed_is_refused_and_nothing_is_recorded) {
  const Tensor x = raw::to(raw::full({100}, 1), kGPU);
  cuda::Graph graph;
  BOOST_CHECK_EXCEPTION(graph.replay(), Error, says("Graph::replay: nothing was captured"));
  BOOST_CHECK_EXCEPTION(graph.capture(nullptr), Error, says("Graph::capture: step: got an empty function"));
  const Tensor parameter = raw::to(raw::full({10}, 1), kGPU).requires_grad_();
  optim::Adam adam({parameter});
  const std::vector<std::pair<std::string, std::function<void()>>> refused = {
      {"copy: cannot be recorded in a cuda::Graph", [&] { (void)x.sum().item<double>(); }},
      {"copy: cannot be recorded in a cuda::Graph", [&] { (void)raw::to(raw::ones({3}), kGPU); }},
      {"dropout: cannot be recorded in a cuda::Graph", [&] { (void)dropout(x, 0.5); }},
      {"uniform: cannot be recorded in a cuda::Graph", [&] { x.uniform_(0, 1); }},
      {"adam: cannot be recorded in a cuda::Graph",
       [&] {
         (parameter * parameter).sum().backward();
         adam.step();
       }},
      {"this thread records another graph", [&] { cuda::Graph().capture([] {}); }},
      {"synchronize", [] { cuda::synchronize(); }},
      {"mine", [] { throw Error("mine"); }}};
  for (const auto& [text, step] : refused) {
    BOOST_TEST_CONTEXT(text) {
      BOOST_CHECK_EXCEPTION(graph.capture(step), Error, says(text));
      BOOST_CHECK_EXCEPTION(graph.replay(), Error, says("nothing was captured"));
    }
  }
  graph.capture([&] { raw::binary_(Binary::add, x, 1); });
  graph.replay();
  BOOST_TEST(x.sum().item<double>() == 200);
}

BOOST_AUTO_TEST_SUITE_END()
