// Methods of Tensor, and what the tables of pointwise operations and reductions make.
#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/combined.h"
#include "tendril/autograd/ops/conv.h"
#include "tendril/autograd/ops/ctc_loss.h"
#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/functions.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/interpolate.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/lstm.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/norm.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/pool.h"
#include "tendril/autograd/ops/random.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/autograd/ops/softmax.h"
#include "tendril/autograd/ops/sort.h"
#include "tendril/nn/distributions/categorical.h"
#include "tendril/nn/init.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/lstm.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/drivers/along.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/drivers/reduction.h"
#include "tendril/tensor/raw.h"
#include "tests/nn/undefined_given.h"

namespace tendril::undefined_calls {

std::vector<Call> pointwise() {
  std::vector<Call> all;
#define TENDRIL_PREDICATE(op, ...)                                               \
  all.push_back({#op, GIVEN(x()), [](Tensors& t) { (void)t[0].op(); }});         \
  all.push_back({#op, GIVEN(x()), [](Tensors& t) { (void)tendril::op(t[0]); }}); \
  all.push_back({#op "_", GIVEN(x()), [](Tensors& t) { t[0].op##_(); }});
#define TENDRIL_UNARY(op, ...) TENDRIL_PREDICATE(op)
#define OF_TWO(op, x)                                                                   \
  all.push_back({#op, GIVEN(x, x), [](Tensors& t) { (void)t[0].op(t[1]); }});           \
  all.push_back({#op, GIVEN(x, x), [](Tensors& t) { (void)tendril::op(t[0], t[1]); }}); \
  all.push_back({#op, GIVEN(x), [](Tensors& t) { (void)t[0].op(1); }});                 \
  all.push_back({#op, GIVEN(x), [](Tensors& t) { (void)tendril::op(t[0], 1); }});       \
  all.push_back({#op "_", GIVEN(x, x), [](Tensors& t) { t[0].op##_(t[1]); }});          \
  all.push_back({#op "_", GIVEN(x), [](Tensors& t) { t[0].op##_(1); }});
#define TENDRIL_COMPARE(op, ...) OF_TWO(op, x())
#define TENDRIL_BINARY(op, ...) \
  OF_TWO(op, x())               \
  all.push_back({#op, GIVEN(x()), [](Tensors& t) { (void)tendril::op(1, t[0]); }});
#define TENDRIL_INTEGRAL(op, ...) \
  OF_TWO(op, index())             \
  all.push_back({#op, GIVEN(index()), [](Tensors& t) { (void)tendril::op(1, t[0]); }});
#include "tendril/tensor/pointwise.def"
#undef OF_TWO
#define TENDRIL_REDUCTION(op, ...) all.push_back({#op, GIVEN(x()), [](Tensors& t) { (void)tendril::op(t[0]); }});
#include "tendril/tensor/reductions.def"
  return all;
}

std::vector<Call> methods() {
  return {
      OWN(dim),
      OWN(sizes),
      OWN(strides),
      OWN(size, 0),
      OWN(stride, 0),
      OWN(numel),
      OWN(dtype),
      OWN(device),
      OWN(is_contiguous),
      OWN(is_floating_point),
      OWN(element_size),
      {"nbytes", GIVEN(x()), [](Tensors& t) { (void)t[0].nbytes(); }, "numel"},
      {"is_cpu", GIVEN(x()), [](Tensors& t) { (void)t[0].is_cpu(); }, "device"},
      {"is_cuda", GIVEN(x()), [](Tensors& t) { (void)t[0].is_cuda(); }, "device"},
      {"options", GIVEN(x()), [](Tensors& t) { (void)t[0].options(); }, "dtype"},
      {"data_ptr", GIVEN(x()), [](Tensors& t) { (void)t[0].data_ptr<float>(); }, "data"},
      {"cpu", GIVEN(x()), [](Tensors& t) { (void)t[0].cpu(); }, "to"},
      {"cuda", GIVEN(), [](Tensors&) {}},  // asks where it is first; on machines without a device it throws anyway
      OWN(new_empty, {2}),
      OWN(new_zeros, {2}),
      OWN(new_ones, {2}),
      OWN(new_full, {2}, 1),
      {"register_hook", GIVEN(leaf()), [](Tensors& t) { t[0].register_hook([](const Tensor& g) { return g; }); }},
      {"clamp_min", GIVEN(x()), [](Tensors& t) { (void)t[0].clamp_min(0); }, "clamp"},
      {"clamp_max", GIVEN(x()), [](Tensors& t) { (void)t[0].clamp_max(0); }, "clamp"},
      {"clamp_min_", GIVEN(x()), [](Tensors& t) { t[0].clamp_min_(0); }, "clamp_"},
      {"clamp_max_", GIVEN(x()), [](Tensors& t) { t[0].clamp_max_(0); }, "clamp_"},
      {"broadcast_to", GIVEN(x()),
       [](Tensors& t) {
         (void)t[0].broadcast_to({2, 3});
       },
       "expand"},
      {"view_as", GIVEN(x()), [](Tensors& t) { (void)t[0].view_as(x()); }, "view"},
      {"reshape_as", GIVEN(x()), [](Tensors& t) { (void)t[0].reshape_as(x()); }, "reshape"},
      {"expand_as", GIVEN(x()), [](Tensors& t) { (void)t[0].expand_as(x()); }, "expand"},
      {"type_as", GIVEN(x()), [](Tensors& t) { (void)t[0].type_as(x()); }, "to"},
      CALL(add, (void)t[0].add(t[1], 2), x(), x()),
      CALL(sub, (void)t[0].sub(t[1], 2), x(), x()),
      CALL(addcmul, (void)t[0].addcmul(t[1], t[2]), x(), x(), x()),
      CALL(addcdiv, (void)t[0].addcdiv(t[1], t[2]), x(), x(), x()),
      CALL(lerp, (void)t[0].lerp(t[1], t[2]), x(), x(), x()),
      CALL(lerp, (void)t[0].lerp(t[1], 0.5), x(), x()),
      {"addcmul_", GIVEN(x(), x(), x()), [](Tensors& t) { t[0].addcmul_(t[1], t[2]); }, "addcmul"},
      {"addcdiv_", GIVEN(x(), x(), x()), [](Tensors& t) { t[0].addcdiv_(t[1], t[2]); }, "addcdiv"},
      {"lerp_", GIVEN(x(), x(), x()), [](Tensors& t) { t[0].lerp_(t[1], t[2]); }, "lerp"},
      {"lerp_", GIVEN(x(), x()), [](Tensors& t) { t[0].lerp_(t[1], 0.5); }, "lerp"},
      CALL(isclose, (void)t[0].isclose(t[1]), x(), x()),
      CALL(mv, (void)t[0].mv(t[1]), ones({2, 2}), two()),
      CALL(take, (void)t[0].take(t[1]), x(), line()),
      CALL(where, (void)t[0].where(t[1], t[2]), x(), mask(), x()),
      OWN(amax),
      OWN(amin),
      OWN(nansum),
      OWN(count_nonzero),
      CALL(trace, (void)t[0].trace(), ones({2, 2})),
      OWN(unflatten, 1, {3, 1}),
      OWN(suggest_memory_format),
      OWN(storage_offset),
      OWN(storage),
      OWN(version),
      OWN(raw_data),
      OWN(data<float>),
      {"mutable_data", GIVEN(x()), [](Tensors& t) { (void)t[0].mutable_data<float>(); }, "data"},
      {"data_ptr", GIVEN(x()), [](Tensors& t) { (void)t[0].data_ptr<float>(); }, "data"},
      CALL(item, t[0].item<float>(), ones({})),
      {"item_scalar", GIVEN(ones({})), [](Tensors& t) { (void)t[0].item_scalar(); }, "item"},
      OWN(to_vector<float>),
      OWN(requires_grad_),
      OWN(is_leaf),
      OWN(grad),
      OWN(zero_grad),
      OWN(detach),
      OWN(detach_),
      CALL(set_grad, t[0].set_grad(x()), leaf()),
      CALL(retain_grad, t[0].retain_grad(), leaf() * 2),
      CALL(backward, t[0].backward(), leaf().sum()),
      OWN(clamp, 0, 1),
      CALL(masked_fill, (void)t[0].masked_fill(t[1], 1), x(), mask()),
      CALL(matmul, (void)t[0].matmul(t[1]), x(), x().t()),
      CALL(mm, (void)t[0].mm(t[1]), x(), x().t()),
      CALL(bmm, (void)t[0].bmm(t[1]), x().unsqueeze(0), x().t().unsqueeze(0)),
      CALL(dot, (void)t[0].dot(t[1]), x()[0], x()[0]),
      OWN(t),
      OWN(sum),
      OWN(sum, {0}),
      OWN(mean),
      OWN(mean, {0}),
      OWN(var, {0}),
      OWN(std, {0}),
      OWN(max),
      OWN(min),
      OWN(max, 0),
      OWN(min, 0),
      OWN(argmax, 0),
      OWN(argmin, 0),
      OWN(all),
      OWN(any),
      OWN(logsumexp, 0),
      OWN(cumsum, 0),
      OWN(cumprod, 0),
      OWN(cummax, 0),
      OWN(cummin, 0),
      OWN(logcumsumexp, 0),
      OWN(prod),
      OWN(prod, 0),
      OWN(norm),
      OWN(norm, 1, {0}),
      OWN(all, 0),
      OWN(any, 0),
      OWN(argmax),
      OWN(argmin),
      CALL(scatter, (void)t[0].scatter(0, t[1], t[2]), x(), index(), x()),
      CALL(scatter, (void)t[0].scatter(0, t[1], 1), x(), index()),
      OWN(softmax, 0),
      OWN(log_softmax, 0),
      CALL(gather, (void)t[0].gather(0, t[1]), x(), index()),
      CALL(scatter_add, (void)t[0].scatter_add(0, t[1], t[2]), x(), index(), x()),
      CALL(index_select, (void)t[0].index_select(0, t[1]), x(), line()),
      CALL(index_add, (void)t[0].index_add(0, t[1], t[2]), x(), line(), x().slice(0, 0, 1)),
      OWN(view, {6}),
      OWN(reshape, {6}),
      OWN(flatten),
      OWN(expand, {2, 3}),
      OWN(permute, {1, 0}),
      OWN(transpose, 0, 1),
      OWN(squeeze),
      OWN(squeeze, 0),
      OWN(unsqueeze, 0),
      OWN(select, 0, 0),
      OWN(slice, 0, 0),
      OWN(narrow, 0, 0, 1),
      OWN(split, 1),
      OWN(split, std::vector<int64_t>{1, 1}),
      OWN(chunk, 2),
      OWN(unbind),
      OWN(contiguous),
      OWN(clone),
      OWN(to, kFloat64),
      OWN(to, kCPU),
      {"operator[]", GIVEN(x()), [](Tensors& t) { (void)t[0][0]; }, "select"},
      CALL(add_, t[0].add_(t[1]), x(), x()),
      OWN(add_, 1),
      CALL(sub_, t[0].sub_(t[1]), x(), x()),
      OWN(sub_, 1),
      CALL(mul_, t[0].mul_(t[1]), x(), x()),
      OWN(mul_, 2),
      CALL(div_, t[0].div_(t[1]), x(), x()),
      OWN(div_, 2),
      {"operator+=", GIVEN(x(), x()), [](Tensors& t) { t[0] += t[1]; }, "add_"},
      {"operator-=", GIVEN(x(), x()), [](Tensors& t) { t[0] -= t[1]; }, "sub_"},
      {"operator*=", GIVEN(x(), x()), [](Tensors& t) { t[0] *= t[1]; }, "mul_"},
      {"operator/=", GIVEN(x(), x()), [](Tensors& t) { t[0] /= t[1]; }, "div_"},
      CALL(copy_, t[0].copy_(t[1]), x(), x()),
      OWN(fill_, 1),
      {"zero_", GIVEN(x()), [](Tensors& t) { t[0].zero_(); }, "fill_"},
      CALL(bitwise_not, (void)t[0].bitwise_not(), index()),
      {"accessor", GIVEN(x()), [](Tensors& t) { (void)t[0].accessor<float, 2>(); }},
      OWN(uniform_),
      OWN(normal_),
      OWN(exponential_),
      OWN(bernoulli_),
      OWN(clamp_, 0, 1),
      CALL(masked_fill_, t[0].masked_fill_(t[1], 1), x(), mask()),
      CALL(bitwise_not_, t[0].bitwise_not_(), index()),
      OWN(tril_),
      OWN(triu_),
      OWN(cumsum_, 0),
      OWN(cumprod_, 0),
      OWN(trunc_normal_),
      CALL(scatter_, t[0].scatter_(0, t[1], t[2]), x(), index(), x()),
      CALL(scatter_, t[0].scatter_(0, t[1], 1), x(), index()),
      CALL(scatter_add_, t[0].scatter_add_(0, t[1], t[2]), x(), index(), x()),
      CALL(index_add_, t[0].index_add_(0, t[1], t[2]), x(), line(), x().slice(0, 0, 1)),
      CALL(index_fill, (void)t[0].index_fill(0, t[1], 1), x(), line()),
      CALL(index_fill_, t[0].index_fill_(0, t[1], 1), x(), line()),
      CALL(index_copy, (void)t[0].index_copy(0, t[1], t[2]), x(), line(), x().slice(0, 0, 1)),
      CALL(index_copy_, t[0].index_copy_(0, t[1], t[2]), x(), line(), x().slice(0, 0, 1)),
  };
}

}  // namespace tendril::undefined_calls
