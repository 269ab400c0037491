// A model cut into stages on several workers, run by each schedule, and the same model in one piece.
#include "tendril/dist/pipeline/pipeline.h"

#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/random.h"
#include "tests/dist/group.h"

BOOST_AUTO_TEST_SUITE(pipeline)

using namespace dist_test;
using namespace tendril::dist::pipeline;

namespace dist_pipeline {

struct Layer : nn::Module {
  Layer(int64_t in, int64_t out, uint64_t seed)
      : generator(seed), linear(in, out, {.dtype = kFloat64, .generator = generator}) {
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x) {
    if (fails_in_forward) throw std::runtime_error("this layer is tired");
    const Tensor y = linear(x).tanh();
    if (fails_in_backward) {
      autograd::register_hook(y,
                              [](const Tensor&) -> Tensor { throw std::runtime_error("this layer goes no way back"); });
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
Tensor mean_square(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }

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

BOOST_AUTO_TEST_CASE(losses_and_steps_equal_the_whole_model_by_every_schedule) {
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
      Generator generator(3);
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
        BOOST_TEST(model.times().size() == static_cast<std::size_t>(plan.workers));
        BOOST_TEST(model.times()[0].busy > 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stage_that_throws_is_an_error_that_names_its_worker_and_the_next_batch_goes_well) {
  const Group group(4);
  Pipeline model(group[0], stages_of(group, 3, 3), one_forward_one_backward(3, 4));
  const Tensor x = ones({4, 3}, {.dtype = kFloat64}), target = ones({4, 6}, {.dtype = kFloat64});
  for (const bool forward : {true, false}) {
    (forward ? Layer::fails_in_forward : Layer::fails_in_backward) = true;
    const Context context(group[0]);
    BOOST_CHECK_EXCEPTION(model.train(context, x, target), rpc::RpcError,
                          says("worker 'w3'", forward ? "tired" : "no way back"));
    Layer::fails_in_forward = Layer::fails_in_backward = false;
  }
  const Context context(group[0]);
  BOOST_TEST(model.train(context, x, target) > 0);
}

BOOST_AUTO_TEST_CASE(a_worker_that_is_lost_ends_the_batch_at_once) {
  const Group group(4);
  Pipeline model(group[0], stages_of(group, 3, 3), gpipe(3, 4));
  group.network().cut(0, 2);
  const auto start = rpc::Clock::now();
  const Context context(group[0]);
  BOOST_CHECK_THROW(model.train(context, ones({4, 3}, {.dtype = kFloat64}), ones({4, 6}, {.dtype = kFloat64})),
                    rpc::RpcError);
  BOOST_TEST((rpc::Clock::now() - start < 30s));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_before_anything_runs) {
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
