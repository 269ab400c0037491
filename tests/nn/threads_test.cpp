// One module, many threads: what Module's contract allows. Worth most under ThreadSanitizer.
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "tendril/nn/dropout.h"
#include "tendril/nn/linear.h"
#include "tendril/tensor/raw.h"

BOOST_AUTO_TEST_SUITE(threads)

using tendril::Tensor;
namespace nn = tendril::nn;
namespace raw = tendril::raw;

namespace {

struct Policy : nn::Module {
  nn::Linear affine1{4, 16};
  nn::Dropout dropout{0.6};
  nn::Linear affine2{16, 2};

  Policy() {
    register_module("affine1", affine1);
    register_module("dropout", dropout);
    register_module("affine2", affine2);
  }
  Tensor forward(const Tensor& x) const { return affine2(dropout(affine1(x)).relu()).softmax(-1); }
};

constexpr int kThreads = 4, kRounds = 200;

template <class Body>
void in_threads(const Body& body) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&body, t] { body(t); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(forward_runs_on_many_threads_over_one_module) {
  Policy policy;
  policy.eval();
  const Tensor x = raw::ones({3, 4});
  const Tensor expected = policy.forward(x).detach();
  std::vector<int> equal(kThreads);
  in_threads([&](int t) {
    for (int round = 0; round < kRounds; ++round) {
      equal[static_cast<std::size_t>(t)] += raw::equal(policy.forward(x).detach(), expected);
    }
  });
  for (int count : equal) BOOST_TEST(count == kRounds);
}

BOOST_AUTO_TEST_CASE(dropout_draws_from_one_generator_on_many_threads) {
  Policy policy;
  const Tensor x = raw::ones({3, 4});
  in_threads([&](int) {
    for (int round = 0; round < kRounds; ++round) policy.forward(x);
  });
  BOOST_TEST(policy.is_training());
}

BOOST_AUTO_TEST_CASE(gradients_of_many_threads_add_up) {
  Policy policy;
  policy.eval();
  const Tensor x = raw::ones({3, 4});
  policy.forward(x).select(1, 0).sum().backward();
  std::vector<Tensor> once;
  for (Tensor& p : policy.parameters()) once.push_back(raw::clone(p.grad()));
  policy.zero_grad();
  in_threads([&](int) {
    for (int round = 0; round < kRounds; ++round) policy.forward(x).select(1, 0).sum().backward();
  });
  const std::vector<Tensor> params = policy.parameters();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::vector<double> sum = params[i].grad().to_vector<double>(), one = once[i].to_vector<double>();
    for (std::size_t k = 0; k < sum.size(); ++k) {
      // float32, 800 summands of one value: each addition rounds by at most 6e-8 of the sum.
      BOOST_TEST(sum[k] == one[k] * kThreads * kRounds, boost::test_tools::tolerance(1e-4));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
