// Attention takes heads where a linear layer leaves them, and gives its results so that the next one finds them: the
// values are those of operands without gaps.
#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/detail/self_attention.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/attention.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;
using tendril::autograd::grad;

namespace {

/// x [b, h, rows, columns] of the CPU on the device, in other orders.
std::vector<std::pair<std::string, Tensor>> in_orders(const Tensor& x) {
  const int64_t columns = x.size(3);
  const Tensor rows_outside = raw::transpose(x, 1, 2);
  const auto inside = [&](std::string name, const Dims& sizes, auto window) {
    const Tensor whole = raw::full(sizes, 77, x.dtype());
    raw::copy_(window(whole), rows_outside);
    return std::pair{std::move(name), raw::transpose(window(raw::to(whole, kGPU)), 1, 2)};
  };
  const auto [b, rows, h] = std::array{x.size(0), x.size(2), x.size(1)};
  return {
      {"without gaps", raw::to(x, kGPU)},
      inside("rows outside", {b, rows, h, columns}, [](const Tensor& t) { return t; }),
      inside("the second of three", {b, rows, 3, h, columns}, [](const Tensor& t) { return raw::select(t, 2, 1); }),
      inside("beside eight others", {b, rows, h, columns + 8},
             [&](const Tensor& t) { return raw::narrow(t, 3, 8, columns); }),
      // these are copied
      inside("beside three others", {b, rows, h, columns + 3},
             [&](const Tensor& t) { return raw::narrow(t, 3, 0, columns); }),
      inside("where no vector can begin", {b, rows, h, columns + 8},
             [&](const Tensor& t) { return raw::narrow(t, 3, 1, columns); }),
      inside("columns apart", {b, rows, h, 2 * columns},
             [&](const Tensor& t) { return t.slice(3, 0, 2 * columns, 2); }),
  };
}

struct Result {
  Tensor out;
  std::vector<Tensor> gradients;
};

Result attend(const std::vector<Tensor>& operands, const Tensor& g, const AttentionOptions& options) {
  std::vector<Tensor> mine;
  for (const Tensor& x : operands) mine.push_back(x.detach().requires_grad_());
  const Tensor out = scaled_dot_product_attention(mine[0], mine[1], mine[2], options);
  return {out.detach(), grad({out}, mine, {g})};
}

void check_alike(const Result& got, const Result& want, DType dtype) {
  const double tolerance = dtype == kBFloat16 ? 0.02 : 0.003;  // another kernel may add up in another order
  check_close(got.out, want.out, tolerance, tolerance);
  for (std::size_t i = 0; i < 3; ++i) check_close(got.gradients[i], want.gradients[i], tolerance, tolerance);
}

bool rows_outside(const Tensor& x) { return raw::transpose(x, 1, 2).is_contiguous(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(attention_layouts)

BOOST_AUTO_TEST_CASE(operands_of_any_order_give_what_contiguous_ones_give) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    const Tensor q = random({2, 3, 9, 16}, dtype, 1), k = random({2, 3, 7, 16}, dtype, 2),
                 v = random({2, 3, 7, 8}, dtype, 3), g = raw::to(random({2, 3, 9, 8}, dtype, 4), kGPU);
    for (const bool causal : {false, true}) {
      const AttentionOptions options{.is_causal = causal};
      const Result want = attend({raw::to(q, kGPU), raw::to(k, kGPU), raw::to(v, kGPU)}, g, options);
      const auto queries = in_orders(q), keys = in_orders(k), values = in_orders(v),
                 slopes = in_orders(raw::to(g, kCPU));
      for (std::size_t i = 0; i < queries.size(); ++i) {
        BOOST_TEST_CONTEXT(dtype << (causal ? ", causal, " : ", ") << queries[i].first) {
          check_alike(attend({queries[i].second, keys[i].second, values[i].second}, g, options), want, dtype);
          check_alike(attend({queries[0].second, keys[i].second, values[1].second}, slopes[i].second, options), want,
                      dtype);
        }
      }
      // as a sum's gradient comes: one number
      const Tensor one = raw::expand(raw::full({1, 1, 1, 1}, 0.5, dtype, kGPU), g.sizes());
      check_alike(attend({queries[1].second, keys[1].second, values[1].second}, one, options),
                  attend({queries[0].second, keys[0].second, values[0].second}, raw::contiguous(one), options), dtype);
    }
  }
}

BOOST_AUTO_TEST_CASE(more_or_fewer_first_dimensions_may_lie_in_any_order) {
  const DType dtype = kBFloat16;
  for (const Dims& sizes :
       {Dims{9, 16}, Dims{4, 9, 16}, Dims{2, 3, 4, 9, 16}, Dims{1, 3, 9, 16}, Dims{2, 1, 9, 16}, Dims{2, 3, 1, 16}}) {
    const int last = sizes.size() - 1;
    const Tensor x = random(sizes, dtype, 1), g = raw::to(random(sizes, dtype, 2), kGPU), y = raw::to(x, kGPU);
    std::vector<Tensor> others{raw::transpose(raw::contiguous(raw::transpose(y, -2, -1)), -2, -1)};
    if (last > 1) others.push_back(raw::transpose(raw::contiguous(raw::transpose(y, -3, -2)), -3, -2));
    if (last > 2) others.push_back(raw::transpose(raw::contiguous(raw::transpose(y, 0, -2)), 0, -2));
    for (const Tensor& other : others) {
      BOOST_TEST_CONTEXT(sizes << " by " << other.strides()) {
        check_alike(attend({other, other, other}, g, {.is_causal = true}), attend({y, y, y}, g, {.is_causal = true}),
                    dtype);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(results_lie_as_the_queries_do) {
  const Tensor x = random({2, 3, 9, 16}, kBFloat16, 1), g = raw::to(random({2, 3, 9, 16}, kBFloat16, 2), kGPU);
  const int64_t before = cuda::attentions_by_cudnn();
  for (const auto& [name, operand] : in_orders(x)) {
    const Result result = attend({operand, operand, operand}, g, {});
    if (cuda::attentions_by_cudnn() == before) return;  // a build without cuDNN's graphs
    const bool taken = name == "rows outside" || name == "the second of three" || name == "beside eight others";
    BOOST_TEST(rows_outside(result.out) == taken, name);
    BOOST_TEST(result.out.is_contiguous() == !taken, name);
    for (const Tensor& gradient : result.gradients) BOOST_TEST(rows_outside(gradient) == taken, name);
  }
}

BOOST_AUTO_TEST_CASE(one_tensor_for_all_three_is_attention_of_its_parts) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32}) {
    for (const AttentionOptions& options : {AttentionOptions{}, AttentionOptions{.is_causal = true},
                                            AttentionOptions{.attn_mask = raw::ones({5, 5}, kBool, kGPU)}}) {
      const Tensor all = raw::to(random({2, 5, 3, 4, 8}, dtype, 1), kGPU).requires_grad_(),
                   g = raw::to(random({2, 4, 5, 8}, dtype, 2), kGPU);
      const Tensor whole = tendril::detail::self_attention(all, options);
      const auto part = [&](int64_t i) { return all.select(2, i).transpose(1, 2); };
      const Tensor apart = scaled_dot_product_attention(part(0), part(1), part(2), options);
      check_close(whole.detach(), apart.detach(), 0.01, 0.01);
      check_close(grad({whole}, {all}, {g})[0], grad({apart}, {all}, {g})[0], 0.01, 0.01);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_layer_of_one_tensor_is_a_layer_of_three_alike) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    for (const bool causal : {false, true}) {
      nn::MultiheadAttention layer(32, 4, {.batch_first = true, .device = kGPU});
      const Tensor x = raw::to(random({2, 6, 32}, kFloat32, 1), kGPU).requires_grad_(),
                   g = raw::to(random({2, 6, 32}, dtype, 2), kGPU);
      const nn::MultiheadAttentionMasks masks{.is_causal = causal, .need_weights = false};
      const auto run = [&](const Tensor& key) {
        const autograd::Autocast low(dtype);
        return layer(x, key, key, masks).output;
      };
      const Tensor one = run(x), three = run(x.view_as(x));
      check_close(one.detach(), three.detach(), 0.02, 0.02);
      std::vector<Tensor> inputs{x};
      for (const Tensor& parameter : layer.parameters()) inputs.push_back(parameter);
      const auto of_one = grad({one}, inputs, {g}), of_three = grad({three}, inputs, {g});
      for (std::size_t i = 0; i < inputs.size(); ++i) check_close(of_one[i], of_three[i], 0.03, 0.03);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
