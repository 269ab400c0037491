// Pipeline losses whose targets have different weights, compared with those of the undivided model.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/optimizer.h"
#include "tendril/dist/pipeline/pipeline.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/random.h"
#include "tests/dist/group.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(weighted_loss)

using namespace dist_test;
using namespace tendril::dist::pipeline;
using tendril::testing::test_seed;

namespace dist_weighted_loss {

struct Layer : nn::Module {
  Layer(int64_t in, int64_t out, uint64_t seed)
      : generator(test_seed(seed)), linear(in, out, {.dtype = kFloat64, .generator = generator}) {
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x) { return linear(x).tanh(); }
  Generator generator;
  nn::Linear linear;
};

constexpr int kIgnored = -100;
Tensor class_weights() { return tensor({1., 3., 0., 0.5}, {.dtype = kFloat64}); }

Tensor unweighted(const Tensor& output, const Tensor& target) { return cross_entropy(output, target); }
double counted(const Tensor& target) { return target.ne(kIgnored).sum().item<double>(); }
Tensor weighted(const Tensor& output, const Tensor& target) {
  return cross_entropy(output, target, {.weight = class_weights()});
}
double weights(const Tensor& target) {
  const Tensor counts = target.ne(kIgnored);
  return class_weights().index_select(0, target.masked_fill(counts.logical_not(), 2)).sum().item<double>();
}
double negative(const Tensor&) { return -1; }

template <Tensor (*loss)(const Tensor&, const Tensor&), double (*weight)(const Tensor&)>
void check_equals_whole(const Tensor& target) {
  const Group group(3, {.num_worker_threads = 1});
  for (const Schedule& plan : {gpipe(2, 4), one_forward_one_backward(2, 4)}) {
    Pipeline model(group[0],
                   {make_stage<Layer>(group[0], 1, 3, 5, uint64_t{1}),
                    make_loss_stage<Layer, loss, weight>(group[0], 2, 5, 4, uint64_t{2})},
                   plan);
    Layer first(3, 5, 1), second(5, 4, 2);
    Generator generator(test_seed());
    const Tensor x = randn({8, 3}, generator, {.dtype = kFloat64});
    const Tensor whole = loss(second.forward(first.forward(x)), target);
    whole.backward();
    const Context context(group[0]);
    const double found = model.train(context, x, target), expected = whole.item<double>();
    BOOST_TEST((std::isnan(expected) ? std::isnan(found) : std::abs(found - expected) < 1e-12),
               found << ", expected " << expected);
    std::vector<Tensor> parameters;
    for (Layer* layer : {&first, &second}) {
      for (const Tensor& parameter : layer->parameters()) parameters.push_back(parameter);
    }
    const auto rrefs = model.parameter_rrefs();
    BOOST_REQUIRE(rrefs.size() == parameters.size());
    dist::DistributedOptimizer<optim::SGD>(group[0], rrefs, {.lr = 1}).step(context);
    optim::SGD(parameters, {.lr = 1}).step();
    for (std::size_t i = 0; i < rrefs.size(); ++i) {
      const Tensor there = rrefs[i].to_here();
      BOOST_TEST(allclose(there, parameters[i].detach(), 1e-11, 1e-12),
                 i << ": " << there << ", expected " << parameters[i]);
    }
  }
}

}  // namespace dist_weighted_loss
using namespace dist_weighted_loss;

BOOST_AUTO_TEST_CASE(ignored_targets_do_not_count) {
  check_equals_whole<&unweighted, &counted>(tensor({0, kIgnored, kIgnored, kIgnored, 1, 2, 3, kIgnored}));
}

BOOST_AUTO_TEST_CASE(ignored_batch_has_no_gradient) {
  check_equals_whole<&unweighted, &counted>(full({8}, kIgnored, {.dtype = kInt64}));
}

BOOST_AUTO_TEST_CASE(class_weights_are_applied) {
  check_equals_whole<&weighted, &weights>(tensor({0, 1, 2, 2, 3, kIgnored, 1, 1}));
}

BOOST_AUTO_TEST_CASE(negative_weight_is_rejected) {
  const Group group(2);
  Pipeline model(group[0], {make_loss_stage<Layer, &unweighted, &negative>(group[0], 1, 3, 4, uint64_t{1})},
                 gpipe(1, 2));
  const Context context(group[0]);
  BOOST_CHECK_EXCEPTION(model.train(context, zeros({4, 3}, {.dtype = kFloat64}), zeros({4}, {.dtype = kInt64})), Error,
                        testing::says("the weight of micro-batch 0 is -1, expected a finite number of 0 or more"));
}

BOOST_AUTO_TEST_SUITE_END()
