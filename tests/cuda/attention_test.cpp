// Attention of half types on a device, by cuDNN where the build has its graphs, against the CPU's.
#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tests/cuda/compare.h"
#include "tests/cuda/slots.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

struct Result {
  Tensor out, dquery, dkey, dvalue;
};

Result attend(Device device, const std::vector<Tensor>& operands, const Tensor& g, const AttentionOptions& options) {
  std::vector<Tensor> mine;
  for (const Tensor& x : operands) mine.push_back(raw::to(x, device).requires_grad_());
  AttentionOptions there = options;
  if (there.attn_mask.defined()) there.attn_mask = raw::to(there.attn_mask, device);
  const Tensor out = scaled_dot_product_attention(mine[0], mine[1], mine[2], there);
  out.backward(raw::to(g, device));
  return {out.detach(), mine[0].grad(), mine[1].grad(), mine[2].grad()};
}

void compare_attention(DType dtype, const Dims& query, int64_t keys, int64_t value_width,
                       const AttentionOptions& options = {}) {
  Dims key = query, value = query;
  key[query.size() - 2] = value[query.size() - 2] = keys;
  value[query.size() - 1] = value_width;
  Dims out = query;
  out[query.size() - 1] = value_width;
  const std::vector<Tensor> operands{random(query, dtype, 1), random(key, dtype, 2), random(value, dtype, 3)};
  const Tensor g = random(out, dtype, 4);
  const Result there = attend(kGPU, operands, g, options), here = attend(kCPU, operands, g, options);
  // The CPU rounds results alone; a device its weights too.
  const double tolerance = dtype == kBFloat16 ? 0.06 : 0.01;
  check_close(raw::to(there.out, kCPU), here.out, tolerance, tolerance);
  check_close(raw::to(there.dquery, kCPU), here.dquery, tolerance, tolerance);
  check_close(raw::to(there.dkey, kCPU), here.dkey, tolerance, tolerance);
  check_close(raw::to(there.dvalue, kCPU), here.dvalue, tolerance, tolerance);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(half_types_are_the_cpus_but_for_rounding) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    compare_attention(dtype, {6, 16, 32}, 16, 32);
    compare_attention(dtype, {2, 3, 9, 8}, 13, 16);
    compare_attention(dtype, {5, 24}, 3, 24, {.scale = 0.5});
    compare_attention(dtype, {3, 1, 16}, 7, 16);
  }
}

BOOST_AUTO_TEST_CASE(causal_queries_see_the_keys_up_to_theirs) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    compare_attention(dtype, {2, 2, 12, 16}, 12, 16, {.is_causal = true});
    compare_attention(dtype, {3, 5, 16}, 9, 8, {.is_causal = true});
    compare_attention(dtype, {3, 9, 16}, 5, 8, {.is_causal = true});
  }
}

BOOST_AUTO_TEST_CASE(what_cudnn_does_not_serve_is_made_of_other_operations) {
  const int64_t before = cuda::attentions_by_cudnn();
  compare_attention(kFloat32, {2, 6, 16}, 6, 16);
  compare_attention(kFloat16, {2, 6, 12}, 6, 12);  // no multiple of 8
  Tensor mask = raw::ones({6, 6}, kBool);
  mask.select(1, 2).fill_(false);
  compare_attention(kBFloat16, {2, 6, 16}, 6, 16, {.attn_mask = mask});
  cuda::set_cudnn(false);
  compare_attention(kBFloat16, {2, 6, 16}, 6, 16);
  cuda::set_cudnn(true);
  BOOST_TEST(cuda::attentions_by_cudnn() == before);
}

BOOST_AUTO_TEST_SUITE_END()
