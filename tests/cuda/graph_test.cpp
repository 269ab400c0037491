// Training steps that are recorded once and issued again as a whole.
#include "tendril/tensor/cuda/runtime.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tendril/autograd/checkpoint.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/flatten.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/adagrad.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/adamax.h"
#include "tendril/nn/optim/ema.h"
#include "tendril/nn/optim/lion.h"
#include "tendril/nn/optim/rmsprop.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/pooling.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/cuda/compare.h"
#include "tests/seed.h"

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

struct Perceptron {
  nn::Linear first{64, 32}, second{32, 3};
  optim::Adam adam;

  Perceptron() : adam(Network::all(on_gpu(first), on_gpu(second), {}), 0.01) {}
  static std::vector<Tensor> on_gpu(nn::Module& module) {
    module.to(kGPU);
    return module.parameters();
  }
  Tensor step(const Tensor& x, const Tensor& labels, Generator& generator) {
    adam.zero_grad();
    const Tensor hidden = dropout(first.forward(x).relu(), 0.4, generator);
    const Tensor loss = cross_entropy(second.forward(hidden), labels);
    loss.backward();
    adam.step();
    return loss;
  }
};

Tensor images(int64_t seed) {
  Generator generator(test_seed(static_cast<uint64_t>(seed)));
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
  manual_seed(test_seed());
  Network here;
  manual_seed(test_seed());
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

BOOST_AUTO_TEST_CASE(each_replay_drops_others_out_and_is_the_next_step_of_adam_by_the_rate_of_now) {
  manual_seed(test_seed());
  Perceptron here;
  manual_seed(test_seed());
  Perceptron recorded;
  const Tensor x = raw::to(images(0).view({6, 64}), kGPU), labels = raw::to(labels_of(0), kGPU);
  Generator theirs(test_seed()), ours(test_seed());
  here.step(x, labels, theirs);
  recorded.step(x, labels, ours);
  cuda::Graph graph;
  Tensor loss;
  const Generator::State before = ours.state();
  graph.capture([&] { loss = recorded.step(x, labels, ours); });
  BOOST_TEST((ours.state() == before));  // nothing has happened yet
  BOOST_TEST(recorded.adam.state(recorded.first.weight).step == 1);
  for (int i = 1; i < 6; ++i) {
    if (i == 3) {
      here.adam.set_lr(0.002);
      recorded.adam.set_lr(0.002);
    }
    graph.replay();
    check_close(loss, here.step(x, labels, theirs), 1e-5, 1e-6);
    BOOST_TEST((ours.state() == theirs.state()));
    BOOST_TEST(recorded.adam.state(recorded.first.weight).step == i + 1);
  }
  check_close(recorded.first.weight, here.first.weight, 1e-5, 1e-6);
  check_close(recorded.second.weight, here.second.weight, 1e-5, 1e-6);
  // What is loaded between two replays is what the next one goes on from.
  recorded.adam.load_state_dict(here.adam.state_dict());
  graph.replay();
  here.step(x, labels, theirs);
  check_close(recorded.second.weight, here.second.weight, 1e-5, 1e-6);
  recorded.step(x, labels, ours);  // as usual again
  here.step(x, labels, theirs);
  check_close(recorded.second.weight, here.second.weight, 1e-5, 1e-6);
}

template <class O>
void check_replays(typename O::Options options) {
  // One parameter has gaps, and one is in channels-last order.
  const auto make = [] {
    const Tensor rows = raw::to(raw::arange(0, 12, 1, kFloat32).view({4, 3}), kGPU).t();
    const Tensor images = raw::to(
        raw::contiguous(raw::arange(0, 120, 1, kFloat32).view({2, 3, 4, 5}).sin(), MemoryFormat::channels_last), kGPU);
    std::vector<Tensor> params = {raw::ones({70}, kFloat32, kGPU), rows, images};
    for (const Tensor& param : params) {
      param.requires_grad_();
      param.set_grad(raw::binary(Binary::add, raw::clone(param.detach()), 0.5));
    }
    return params;
  };
  const std::vector<Tensor> ours = make(), theirs = make();
  O recorded(ours, options), plain(theirs, options);
  const auto check_equal = [&] {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      BOOST_TEST(raw::equal(raw::to(ours[i].detach(), kCPU), raw::to(theirs[i].detach(), kCPU)),
                 "parameter " << i << ": " << ours[i].detach() << " and " << theirs[i].detach());
    }
  };
  recorded.step();
  plain.step();
  cuda::Graph graph;
  const uint32_t version = ours[0].version();
  graph.capture([&] {
    recorded.step();
    recorded.step();  // two in one replay
  });
  BOOST_TEST(ours[0].version() == version + 2);  // who kept something of the old values is told
  check_equal();
  for (int i = 0; i < 4; ++i) {
    if (i == 2) {
      recorded.set_lr(0.03);
      plain.set_lr(0.03);
    }
    graph.replay();
    plain.step();
    plain.step();
    check_equal();
  }
  recorded.load_state_dict(recorded.state_dict());
  graph.replay();
  plain.step();
  plain.step();
  check_equal();
  recorded.load_state_dict(plain.state_dict());
  graph.capture([&] { recorded.step(); });
  graph.replay();
  plain.step();
  check_equal();
}

BOOST_AUTO_TEST_CASE(replays_of_every_optimizer_give_the_bits_of_its_steps) {
  check_replays<optim::SGD>({.lr = 0.1, .momentum = 0.9});
  check_replays<optim::Adam>({.lr = 0.01});
  check_replays<optim::AdamW>({.lr = 0.01, .weight_decay = 0.1, .amsgrad = true});
  check_replays<optim::Adamax>({.lr = 0.01});
  check_replays<optim::Adagrad>({.lr = 0.1, .lr_decay = 0.2});
  check_replays<optim::RMSprop>({.lr = 0.01, .momentum = 0.5, .centered = true});
  check_replays<optim::Lion>({.lr = 0.01});
}

BOOST_AUTO_TEST_CASE(what_a_checkpoint_computes_again_has_the_masks_of_the_first_time) {
  const auto make = [] { return raw::to(raw::arange(1, 301, 1, kFloat32), kGPU).requires_grad_(); };
  const Tensor ours = make(), theirs = make();
  const auto step = [](const Tensor& x, Generator& generator) {
    x.zero_grad();
    const auto function = [&](const Tensor& y) { return dropout(dropout(y * y, 0.5, generator) * y, 0.3, generator); };
    autograd::checkpoint(autograd::CheckpointOptions{.generators = {&generator}}, function, x).sum().backward();
  };
  Generator mine(test_seed()), its(test_seed());
  step(ours, mine);
  step(theirs, its);
  cuda::Graph graph;
  graph.capture([&] { step(ours, mine); });
  const Tensor gradient = ours.grad();
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    step(theirs, its);
    BOOST_TEST(raw::equal(raw::to(gradient, kCPU), raw::to(theirs.grad(), kCPU)));
    BOOST_TEST((mine.state() == its.state()));
  }
}

BOOST_AUTO_TEST_CASE(what_is_drawn_after_a_checkpoint_goes_on_from_where_its_first_run_ended) {
  const auto steps = [](bool as_graph) {
    manual_seed(test_seed());
    const Tensor x = raw::to(raw::arange(1, 301, 1, kFloat32), kGPU).requires_grad_();
    Tensor after;
    const auto step = [&] {
      x.zero_grad();
      const auto inner = [](const Tensor& y) { return dropout(y * y, 0.5); };
      const auto outer = [&](const Tensor& y) { return dropout(autograd::checkpoint(inner, y) * y, 0.3); };
      autograd::checkpoint(outer, x).sum().backward();
      after = dropout(x.detach(), 0.5);
    };
    step();
    std::vector<Tensor> seen;
    cuda::Graph graph;
    if (as_graph) graph.capture(step);
    for (int i = 0; i < 3; ++i) {
      as_graph ? graph.replay() : step();
      seen.push_back(raw::to(x.grad(), kCPU));
      seen.push_back(raw::to(after, kCPU));
    }
    return seen;
  };
  const std::vector<Tensor> plain = steps(false), replayed = steps(true);
  for (std::size_t i = 0; i < plain.size(); ++i) BOOST_TEST(raw::equal(plain[i], replayed[i]), "value " << i);
}

BOOST_AUTO_TEST_CASE(of_what_gets_new_arguments_kernels_alone_are_taken) {
  const Tensor x = raw::ones({3, 3}, kFloat32, kGPU);
  cuda::Graph graph;
  const auto renewed = [&](const std::function<void()>& work) {
    return [work] { tendril::detail::recorder()->renew([work](bool) { work(); }); };
  };
  BOOST_CHECK_EXCEPTION(graph.capture(renewed([&] { (void)raw::matmul(x, x); })), Error,
                        says("cannot be part of what a cuda::Graph gives other arguments before each replay"));
  BOOST_CHECK_EXCEPTION(graph.capture(renewed([&] {
    raw::copy_(x, raw::ones({3, 3}));
  })),
                        Error, says("copy: cannot be part of"));
  const Tensor y = raw::ones({3, 3}, kFloat32, kGPU);
  BOOST_CHECK_EXCEPTION(graph.capture(renewed([&] { raw::copy_(x, y); })), Error, says("copy: cannot be part of"));
  // A step that goes on without the part that failed is recorded without it, or not at all.
  const auto caught = [&] {
    try {
      renewed([&] {
        raw::binary_(Binary::add, x, 1);
        throw Error("mine");
      })();
    } catch (const Error&) {
    }
  };
  BOOST_CHECK_EXCEPTION(graph.capture(caught), Error, says("Graph::capture: what would get other arguments failed"));
  graph.capture([&] {
    try {
      renewed([] { throw Error("mine"); })();
    } catch (const Error&) {
    }
    raw::binary_(Binary::add, x, 1);
  });
  graph.replay();
  BOOST_TEST(x.sum().item<double>() == 18);
}

BOOST_AUTO_TEST_CASE(each_replay_draws_the_next_numbers) {
  const Tensor uniform = raw::zeros({1001}, kFloat32, kGPU), normal = raw::zeros({7}, kFloat64, kGPU),
               rows = raw::zeros({4, 3}, kFloat32, kGPU), picks = raw::zeros({9}, kInt64, kGPU),
               kept = raw::zeros({9}, kFloat32, kGPU), narrow = raw::zeros({9}, kFloat16, kGPU);
  const auto draw = [&](Generator& generator) {
    raw::uniform_(uniform, -1, 1, generator);
    raw::normal_(normal, 0, 1, generator);
    raw::normal_(rows.t(), 0, 1, generator);  // with gaps: by way of a tensor of the graph's own
    raw::randint_(picks, 0, 1000, generator);
    raw::bernoulli_(kept, 0.5, generator);
    raw::uniform_(narrow, 0, 1, generator);
  };
  const auto all = [&] {
    std::vector<std::vector<double>> values;
    for (const Tensor& x : {uniform, normal, rows, picks, kept, narrow}) {
      values.push_back(raw::cast(raw::to(x, kCPU), kFloat64).to_vector<double>());
    }
    return values;
  };
  Generator ours(test_seed()), theirs(test_seed());
  cuda::Graph graph;
  graph.capture([&] { draw(ours); });
  std::vector<std::vector<double>> last;
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    const auto got = all();
    draw(theirs);
    BOOST_TEST((got == all()));
    BOOST_TEST((got != last));
    last = got;
  }
  BOOST_TEST((ours.state() == theirs.state()));
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_taken_later_has_the_mask_of_the_last_replay) {
  const Tensor x = raw::to(raw::full({500}, 1), kGPU).requires_grad_();
  Generator generator(test_seed());
  cuda::Graph graph;
  Tensor y;
  graph.capture([&] { y = dropout(x, 0.5, generator); });
  graph.replay();
  graph.replay();
  y.backward(raw::ones({500}, kFloat32, kGPU));
  check_close(x.grad(), y.detach(), 0, 0);
}

BOOST_AUTO_TEST_CASE(a_replay_that_would_launch_other_kernels_says_so_and_can_be_recorded_again) {
  const Tensor parameter = raw::ones({10}, kFloat32, kGPU).requires_grad_();
  parameter.set_grad(raw::ones({10}, kFloat32, kGPU));
  optim::Adam adam({parameter});
  adam.step();
  cuda::Graph graph;
  graph.capture([&] { adam.step(); });
  graph.replay();
  optim::AdamOptions options = adam.options();
  options.amsgrad = true;
  adam.set_options(0, options);
  BOOST_CHECK_EXCEPTION(graph.replay(), Error,
                        says("launches other kernels than when it was recorded (record the step again)"));
  BOOST_TEST(adam.state(parameter).step == 2);
  adam.step();
  graph.capture([&] { adam.step(); });
  graph.replay();
  BOOST_TEST(adam.state(parameter).step == 4);
  BOOST_TEST(parameter.sum().item<double>() == 10 * (1 - 4e-3), boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_replayed_is_refused_and_nothing_is_recorded) {
  const Tensor x = raw::to(raw::full({100}, 1), kGPU);
  cuda::Graph graph;
  BOOST_CHECK_EXCEPTION(graph.replay(), Error, says("Graph::replay: nothing was captured"));
  BOOST_CHECK_EXCEPTION(graph.capture(nullptr), Error, says("Graph::capture: step: got an empty function"));
  const Tensor parameter = raw::to(raw::full({10}, 1), kGPU).requires_grad_();
  optim::Adam adam({parameter});
  const Tensor here = raw::ones({2}).requires_grad_();
  here.set_grad(raw::ones({2}));
  optim::SGD on_cpu({here});
  optim::ExponentialMovingAverage average({parameter});
  const std::vector<std::pair<std::string, std::function<void()>>> refused = {
      {"copy: cannot be recorded in a cuda::Graph", [&] { (void)x.sum().item<double>(); }},
      {"copy: cannot be recorded in a cuda::Graph", [&] { (void)raw::to(raw::ones({3}), kGPU); }},
      {"Adam::step: parameter 0 has not all the state yet that these options need, expected one step with them before",
       [&] {
         (parameter * parameter).sum().backward();
         adam.step();
       }},
      {"SGD::step: parameter 0 is on cpu, expected cuda:0, whose work a cuda::Graph records", [&] { on_cpu.step(); }},
      {"ExponentialMovingAverage::update: cannot be recorded in a cuda::Graph", [&] { average.update(); }},
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
