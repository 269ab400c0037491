// That what users call takes the fast kernels, forward and backward, by counters (tensor/cpu/paths.h); kernels by
// themselves are in tests/tensor/paths_test.cpp.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/paths.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(paths)

using namespace tendril;
using cpu::Path;
using tendril::testing::test_seed;

namespace {

Tensor noise(const Dims& sizes) {
  Generator generator(test_seed());
  Tensor x = raw::empty(sizes);
  raw::uniform_(x, -1, 1, generator);
  return x;
}
Tensor leaf(const Dims& sizes) { return noise(sizes).requires_grad_(); }

/// The gradients of all, of which results are sums.
void differentiate(const Tensor& y) { autograd::backward({y}, {noise(y.sizes())}); }

void norm_and_relu(int64_t n, MemoryFormat order) {
  const Tensor x = raw::contiguous(noise({2, 16, n / 4, n / 4}), order).requires_grad_();
  differentiate(batch_norm_relu(x, {}, {}, leaf({16}), leaf({16}), {.training = true}));
}

}  // namespace

BOOST_AUTO_TEST_CASE(large_operations_take_their_fast_kernels_and_small_ones_count_nothing) {
  const ThreadLimit alone(1);
  testing::check_paths({
      {"relu", Path::fused_gradient, 1,
       [](int64_t n) {
         differentiate(leaf({n, n}).relu());
       }},
      {"gelu", Path::fused_gradient, 1,
       [](int64_t n) {
         differentiate(leaf({n, n}).gelu());
       }},
      {"atan2", Path::fused_gradient, 2,
       [](int64_t n) {
         differentiate(atan2(leaf({n, n}), leaf({n, n})));
       }},
      {"batch_norm_relu", Path::batch_norm_relu, 2, [](int64_t n) { norm_and_relu(n, MemoryFormat::contiguous); }},
      {"batch_norm_relu in channels-last order", Path::pixels, 2,
       [](int64_t n) { norm_and_relu(n, MemoryFormat::channels_last); }},
      {"layer_norm", Path::layer_norm, 2,
       [](int64_t n) {
         differentiate(tendril::layer_norm(leaf({n, n}), {n}, leaf({n}), leaf({n})));
       }},
      {"cross_entropy", Path::cross_entropy, 2,
       [](int64_t n) {
         differentiate(cross_entropy(leaf({n, n}), raw::arange(0, n)));
       }},
      {"attention", Path::attention, 2,
       [](int64_t n) {
         differentiate(scaled_dot_product_attention(leaf({2, n, 8}), leaf({2, n, 8}), leaf({2, n, 8})));
       }},
      {"lstm_layer", Path::lstm_steps, 2,
       [](int64_t n) {
         differentiate(lstm_layer(leaf({3, n, 4 * n}), leaf({4 * n, n}), {}, {}).output);
       }},
      {"embedding", Path::index_rows, 2,
       [](int64_t n) {
         differentiate(tendril::embedding(raw::arange(0, n), leaf({n, n})));
       }},
      {"a step of Adam", Path::optimizer_step, 1,
       [](int64_t n) {
         const Tensor param = leaf({n, n});
         param.set_grad(noise({n, n}));
         optim::Adam({param}).step();
       }},
  });
}

BOOST_AUTO_TEST_SUITE_END()
