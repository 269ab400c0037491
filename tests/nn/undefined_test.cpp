// An undefined tensor is an error that names the function and the argument, wherever one is given: every function of
// tensor/, autograd/ and nn/ that takes tensors is called with each of them undefined in turn.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

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

BOOST_AUTO_TEST_SUITE(undefined)

using namespace tendril;

namespace {

using Tensors = std::vector<Tensor>;

/// Plain pointers: tables of hundreds of strings and std::functions took 12 s to compile.
struct Call {
  const char* name;        ///< as the headers have it
  Tensors (*arguments)();  ///< with which it succeeds; each is undefined in turn
  void (*call)(Tensors&);
  const char* op = "";  ///< as errors name it, if otherwise
};

Tensor x() { return full({2, 3}, 0.5); }
Tensor mask() { return full({2, 3}, 1, {.dtype = kBool}); }
Tensor index() { return zeros({2, 3}, {.dtype = kInt64}); }
Tensor line() { return zeros({1}, {.dtype = kInt64}); }
Tensor image() { return ones({1, 2, 4, 4}); }
Tensor two() { return ones({2}); }
Tensor leaf() { return full({2, 3}, 0.5, {.requires_grad = true}); }

// clang-format off
#define GIVEN(...) [] { return Tensors{__VA_ARGS__}; }
#define CALL(name, expression, ...) {#name, GIVEN(__VA_ARGS__), [](Tensors& t) { expression; }}
/// Methods with no tensor but their own.
#define OWN(method, ...) CALL(method, (void)t[0].method(__VA_ARGS__), x())
#define RAW(function, ...) CALL(function, (void)raw::function(t[0] __VA_OPT__(, ) __VA_ARGS__), x())
// clang-format on

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

std::vector<Call> functions_of_raw() {
  return {
      RAW(empty_like),
      RAW(empty_in_format_of),
      RAW(clone),
      RAW(contiguous),
      RAW(cast, kFloat64),
      RAW(to, kCPU),
      RAW(fill_, 1),
      CALL(copy_, raw::copy_(t[0], t[1]), x(), x()),
      RAW(as_strided, {1}, {1}, 0),
      RAW(viewed, Layout{{1}, {1}, 0}),
      RAW(view, {6}),
      RAW(reshape, {6}),
      RAW(expand, {2, 3}),
      RAW(permute, {1, 0}),
      RAW(transpose, 0, 1),
      RAW(select, 0, 0),
      RAW(slice, 0, 0),
      RAW(narrow, 0, 0, 1),
      RAW(squeeze, 0),
      RAW(unsqueeze, 0),
      {"view_of", GIVEN(x()), [](Tensors& t) { (void)raw::view_of(t[0]); }, "raw_data"},
      CALL(result_type, (void)raw::result_type(t[0], t[1]), x(), x()),
      RAW(result_type, 1),
      {"unary", GIVEN(x()), [](Tensors& t) { (void)raw::unary(Unary::exp, t[0]); }, "exp"},
      {"unary_gradient", GIVEN(x(), x()), [](Tensors& t) { (void)raw::unary_gradient(Unary::exp, t[0], t[1]); }, "exp"},
      {"binary_gradient", GIVEN(x()), [](Tensors& t) { (void)raw::binary_gradient(Binary::pow, 0, t[0], {}, 2); },
       "pow"},
      {"unary_", GIVEN(x()), [](Tensors& t) { raw::unary_(Unary::exp, t[0]); }, "exp"},
      {"predicate", GIVEN(x()), [](Tensors& t) { (void)raw::predicate(Predicate::isnan, t[0]); }, "isnan"},
      {"binary", GIVEN(x(), x()), [](Tensors& t) { (void)raw::binary(Binary::add, t[0], t[1]); }, "add"},
      {"binary", GIVEN(x()), [](Tensors& t) { (void)raw::binary(Binary::add, t[0], 1); }, "add"},
      {"binary", GIVEN(x()), [](Tensors& t) { (void)raw::binary(Binary::add, 1, t[0]); }, "add"},
      {"binary_", GIVEN(x(), x()), [](Tensors& t) { raw::binary_(Binary::add, t[0], t[1]); }, "add"},
      {"binary_", GIVEN(x()), [](Tensors& t) { raw::binary_(Binary::add, t[0], 1); }, "add"},
      {"compare", GIVEN(x(), x()), [](Tensors& t) { (void)raw::compare(Compare::lt, t[0], t[1]); }, "lt"},
      {"compare", GIVEN(x()), [](Tensors& t) { (void)raw::compare(Compare::lt, t[0], 1); }, "lt"},
      {"add_scaled_", GIVEN(x(), x()), [](Tensors& t) { raw::add_scaled_(t[0], t[1], 2); }, "add"},
      CALL(where, (void)raw::where(t[0], t[1], t[2]), mask(), x(), x()),
      RAW(clamp, 0, 1),
      {"Reduced", GIVEN(x()), [](Tensors& t) { (void)drivers::Reduced(t[0], {}, "sum"); }, "sum"},
      {"reduce", GIVEN(x()), [](Tensors& t) { (void)drivers::reduce(Reduction::sum, t[0]); }, "sum"},
      CALL(cumsum, (void)drivers::cumsum(t[0], 0), x()),
      {"along", GIVEN(x()), [](Tensors& t) { (void)drivers::along(&Kernels::softmax, "softmax", t[0], 0); }, "softmax"},
      {"extremum", GIVEN(x()), [](Tensors& t) { (void)drivers::extremum(true, t[0], 0, true, "max"); }, "max"},
      {"sort_places", GIVEN(x()), [](Tensors& t) { (void)drivers::sort_places(t[0], 0, false); }, "sort"},
      {"reduce_to", GIVEN(x()),
       [](Tensors& t) {
         (void)drivers::reduce_to(Reduction::sum, t[0], {1, 1}, {}, "sum");
       },
       "device"},
      {"index_copy_", GIVEN(x(), line(), x()[0].unsqueeze(0)),
       [](Tensors& t) { drivers::index_copy_(t[0], 0, t[1], t[2]); }, "index_copy"},
      {"scatter_", GIVEN(x(), index(), x()), [](Tensors& t) { drivers::scatter_(t[0], 0, t[1], t[2]); }, "scatter"},
      CALL(matmul, (void)raw::matmul(t[0], t[1]), x(), x().t()),
      CALL(gather, (void)drivers::gather(t[0], 0, t[1]), x(), index()),
      {"scatter_add_", GIVEN(x(), index(), x()), [](Tensors& t) { drivers::scatter_add_(t[0], 0, t[1], t[2]); },
       "scatter_add"},
      CALL(index_select, (void)drivers::index_select(t[0], 0, t[1]), x(), line()),
      {"index_add_", GIVEN(x(), line(), x()[0].unsqueeze(0)),
       [](Tensors& t) { drivers::index_add_(t[0], 0, t[1], t[2]); }, "index_add"},
      RAW(uniform_, 0, 1, default_generator()),
      RAW(normal_, 0, 1, default_generator()),
      RAW(bernoulli_, 0.5, default_generator()),
      RAW(randint_, 0, 9, default_generator()),
      CALL(equal, (void)raw::equal(t[0], t[1]), x(), x()),
  };
}

std::vector<Call> functions() {
  return {
      CALL(empty_like, (void)empty_like(t[0]), x()),
      {"zeros_like", GIVEN(x()), [](Tensors& t) { (void)zeros_like(t[0]); }, "full_like"},
      {"ones_like", GIVEN(x()), [](Tensors& t) { (void)ones_like(t[0]); }, "full_like"},
      CALL(full_like, (void)full_like(t[0], 2), x()),
      CALL(where, (void)where(t[0], t[1], t[2]), mask(), x(), x()),
      CALL(where, (void)where(t[0], t[1], 1), mask(), x()),
      CALL(where, (void)where(t[0], 1, t[1]), mask(), x()),
      CALL(clamp, (void)clamp(t[0], 0, 1), x()),
      CALL(masked_fill, (void)masked_fill(t[0], t[1], 1), x(), mask()),
      CALL(matmul, (void)matmul(t[0], t[1]), x(), x().t()),
      CALL(mm, (void)mm(t[0], t[1]), x(), x().t()),
      CALL(bmm, (void)bmm(t[0], t[1]), x().unsqueeze(0), x().t().unsqueeze(0)),
      CALL(dot, (void)dot(t[0], t[1]), x()[0], x()[0]),
      CALL(addmm, (void)addmm(t[0], t[1], t[2]), ones({2}), x(), x().t()),
      CALL(linear, (void)linear(t[0], t[1]), x(), x()),
      CALL(sum_to, (void)sum_to(t[0], {3}), x()),
      CALL(softmax, (void)softmax(t[0], 0), x()),
      CALL(log_softmax, (void)log_softmax(t[0], 0), x()),
      CALL(logsumexp, (void)logsumexp(t[0], 0), x()),
      CALL(cumsum, (void)cumsum(t[0], 0), x()),
      CALL(cat, (void)cat(t), x(), x()),
      CALL(stack, (void)stack(t), x(), x()),
      CALL(dropout, (void)dropout(t[0], 0.5), x()),
      CALL(embedding, (void)embedding(t[0], t[1]), line(), x()),
      CALL(nll_loss, (void)nll_loss(t[0], t[1]), x(), index()[0].slice(0, 0, 2)),
      CALL(cross_entropy, (void)cross_entropy(t[0], t[1]), x(), index()[0].slice(0, 0, 2)),
      CALL(mse_loss, (void)mse_loss(t[0], t[1]), x(), x()),
      CALL(lstm_layer, (void)lstm_layer(t[0], t[1], {}, {}), ones({1, 2, 4}), ones({4, 1})),
      CALL(lstm_layer, (void)lstm_layer(t[0], LstmWeights{t[1], t[2], {}, {}}, {}, {}), ones({1, 2, 3}), ones({4, 3}),
           ones({4, 1})),
      CALL(batch_norm, (void)batch_norm(t[0], t[1], t[2]), image(), two(), two()),
      CALL(batch_norm_relu, (void)batch_norm_relu(t[0], t[1], t[2]), image(), two(), two()),
      CALL(layer_norm, (void)layer_norm(t[0], {3}), x()),
      CALL(rms_norm, (void)rms_norm(t[0], {3}), x()),
      CALL(group_norm, (void)group_norm(t[0], 1), x()),
      CALL(binary_cross_entropy, (void)binary_cross_entropy(t[0], t[1]), x(), x()),
      CALL(binary_cross_entropy_with_logits, (void)binary_cross_entropy_with_logits(t[0], t[1]), x(), x()),
      CALL(l1_loss, (void)l1_loss(t[0], t[1]), x(), x()),
      CALL(smooth_l1_loss, (void)smooth_l1_loss(t[0], t[1]), x(), x()),
      CALL(huber_loss, (void)huber_loss(t[0], t[1]), x(), x()),
      CALL(kl_div, (void)kl_div(t[0], t[1]), x(), x()),
      CALL(cosine_similarity, (void)cosine_similarity(t[0], t[1]), x(), x()),
      CALL(cosine_embedding_loss, (void)cosine_embedding_loss(t[0], t[1], t[2]), x(), x(), two()),
      CALL(triplet_margin_loss, (void)triplet_margin_loss(t[0], t[1], t[2]), x(), x(), x()),
      CALL(hardtanh, (void)hardtanh(t[0]), x()),
      CALL(threshold, (void)threshold(t[0], 0, 1), x()),
      CALL(softplus, (void)softplus(t[0], 2), x()),
      CALL(prelu, (void)prelu(t[0], t[1]), x(), ones({1})),
      CALL(glu, (void)glu(t[0], 0), x()),
      CALL(interpolate, (void)interpolate(t[0], {.size = 2}), image()),
      CALL(scaled_dot_product_attention, (void)scaled_dot_product_attention(t[0], t[1], t[2]), x(), x(), x()),
      {"attention_with_weights", GIVEN(x(), x(), x()),
       [](Tensors& t) { (void)attention_with_weights(t[0], t[1], t[2]); }, "scaled_dot_product_attention"},
      CALL(conv2d, (void)conv2d(t[0], t[1]), image(), ones({1, 2, 2, 2})),
      CALL(conv1d, (void)conv1d(t[0], t[1]), x(), ones({1, 2, 2})),
      CALL(conv_transpose2d, (void)conv_transpose2d(t[0], t[1]), image(), ones({2, 1, 2, 2})),
      CALL(conv_transpose1d, (void)conv_transpose1d(t[0], t[1]), x(), ones({2, 1, 2})),
      CALL(adaptive_max_pool2d, (void)adaptive_max_pool2d(t[0], 1), image()),
      {"adaptive_max_pool2d_with_indices", GIVEN(image()),
       [](Tensors& t) { (void)adaptive_max_pool2d_with_indices(t[0], 1); }, "adaptive_max_pool2d"},
      {"adaptive_max_pool1d_with_indices", GIVEN(x()),
       [](Tensors& t) { (void)adaptive_max_pool1d_with_indices(t[0], 1); }, "adaptive_max_pool1d"},
      CALL(max_pool1d, (void)max_pool1d(t[0], 2), x()),
      {"max_pool1d_with_indices", GIVEN(x()), [](Tensors& t) { (void)max_pool1d_with_indices(t[0], 2); }, "max_pool1d"},
      CALL(avg_pool1d, (void)avg_pool1d(t[0], 2), x()),
      CALL(adaptive_avg_pool1d, (void)adaptive_avg_pool1d(t[0], 1), x()),
      CALL(adaptive_max_pool1d, (void)adaptive_max_pool1d(t[0], 1), x()),
      CALL(ctc_loss, (void)ctc_loss(t[0], t[1], t[2], t[3]), x(), line() + 1, line() + 2, line() + 1),
      CALL(rrelu, (void)rrelu(t[0]), x()),
      CALL(conv2d_relu, (void)conv2d_relu(t[0], t[1]), image(), ones({1, 2, 2, 2})),
      CALL(max_pool2d, (void)max_pool2d(t[0], 2), image()),
      CALL(avg_pool2d, (void)avg_pool2d(t[0], 2), image()),
      {"max_pool2d_with_indices", GIVEN(image()), [](Tensors& t) { (void)max_pool2d_with_indices(t[0], 2); },
       "max_pool2d"},
      CALL(adaptive_avg_pool2d, (void)adaptive_avg_pool2d(t[0], 2), image()),
      CALL(backward, autograd::backward(t), leaf().sum(), leaf().sum()),
      CALL(grad, (void)autograd::grad({t[0]}, {t[1]}, {}, {.allow_unused = true}), leaf().sum(), leaf()),
      CALL(register_hook, autograd::register_hook(t[0], [](const Tensor& g) { return g; }), leaf()),
      CALL(grad_fn, (void)autograd::grad_fn(t[0]), x()),
      {"gradient_edge", GIVEN(x()), [](Tensors& t) { (void)autograd::gradient_edge(t[0]); }, "grad_fn"},
      CALL(gradcheck, (void)autograd::gradcheck([](const Tensors& in) { return in; }, t),
           full({2, 3}, 0.5, {.dtype = kFloat64, .requires_grad = true})),
      {"gradgradcheck", GIVEN(x()),
       [](Tensors& t) { (void)autograd::gradgradcheck([](const Tensors& in) { return in; }, t); }, "gradcheck"},
      CALL(calculate_fans, (void)nn::init::calculate_fans(t[0]), x()),
      CALL(zeros_, nn::init::zeros_(t[0]), x()),
      CALL(ones_, nn::init::ones_(t[0]), x()),
      CALL(constant_, nn::init::constant_(t[0], 1), x()),
      CALL(uniform_, nn::init::uniform_(t[0]), x()),
      CALL(normal_, nn::init::normal_(t[0]), x()),
      CALL(xavier_uniform_, nn::init::xavier_uniform_(t[0]), x()),
      CALL(xavier_normal_, nn::init::xavier_normal_(t[0]), x()),
      CALL(kaiming_uniform_, nn::init::kaiming_uniform_(t[0]), x()),
      CALL(kaiming_normal_, nn::init::kaiming_normal_(t[0]), x()),
      CALL(trunc_normal_, nn::init::trunc_normal_(t[0]), x()),
      CALL(orthogonal_, nn::init::orthogonal_(t[0]), x()),
      CALL(sparse_, nn::init::sparse_(t[0], 0.5), x()),
      {"log_prob", GIVEN(index()[0].slice(0, 0, 2)),
       [](Tensors& t) { (void)distributions::Categorical({.probs = x()}).log_prob(t[0]); }, "Categorical"},
      {"forward", GIVEN(x()), [](Tensors& t) { (void)nn::Linear(3, 2).forward(t[0]); }, "Linear"},
      {"forward", GIVEN(ones({2, 1, 3})), [](Tensors& t) { (void)nn::LSTM(3, 2).forward(t[0]); }, "LSTM"},
      {"SGD", GIVEN(leaf()), [](Tensors& t) { optim::SGD(t, {.lr = 0.1}); }},
  };
}

std::vector<Call> functions_of_places() {
  return {
      {"Indexed", GIVEN(x()), [](Tensors& t) { (void)t[0][{Index(0)}]; }, "index"},
      {"Index", GIVEN(line()), [](Tensors& t) { (void)tendril::index(x(), {t[0]}); }, "index"},
      CALL(index, (void)tendril::index(t[0], {t[1]}), x(), line()),
      CALL(index_put_, index_put_(t[0], {0}, t[1]), x(), x()[0]),
      CALL(nonzero, (void)nonzero(t[0]), x()),
      CALL(masked_select, (void)masked_select(t[0], t[1]), x(), mask()),
      CALL(take_along_dim, (void)take_along_dim(t[0], t[1], 0), x(), index()),
      CALL(one_hot, (void)one_hot(t[0], 3), line()),
      CALL(flip, (void)flip(t[0], {0}), x()),
      CALL(roll, (void)roll(t[0], 1, 0), x()),
      CALL(roll, (void)roll(t[0], Dims{1}, Dims{0}), x()),
      CALL(roll, (void)roll(t[0], 1), x()),
      CALL(repeat_interleave, (void)repeat_interleave(t[0], 2), x()),
      CALL(where, (void)where(t[0], 1, 2), mask()),
      {"std_mean", GIVEN(x()), [](Tensors& t) { (void)std_mean(t[0]); }, "std"},
      {"var_mean", GIVEN(x()), [](Tensors& t) { (void)var_mean(t[0]); }, "var"},
      CALL(normalize, (void)normalize(t[0]), x()),
      CALL(hstack, (void)hstack(t), x(), x()),
      CALL(vstack, (void)vstack(t), x(), x()),
      CALL(dstack, (void)dstack(t), x(), x()),
      CALL(roll, (void)roll(t[0], 1, 0), x()),
      CALL(repeat, (void)repeat(t[0], {2, 2}), x()),
      CALL(tile, (void)tile(t[0], {2}), x()),
      CALL(repeat_interleave, (void)repeat_interleave(t[0], 2, 0), x()),
      CALL(pad, (void)pad(t[0], {1, 1}), x()),
      CALL(tril, (void)tril(t[0]), x()),
      CALL(triu, (void)triu(t[0]), x()),
      CALL(diag, (void)diag(t[0]), x()),
      CALL(diagonal, (void)diagonal(t[0]), x()),
      CALL(meshgrid, (void)meshgrid(t), line(), line()),
      CALL(movedim, (void)movedim(t[0], 0, 1), x()),
      CALL(sort, (void)tendril::sort(t[0]), x()),
      {"argsort", GIVEN(x()), [](Tensors& t) { (void)argsort(t[0]); }, "sort"},
      CALL(topk, (void)topk(t[0], 1), x()),
      CALL(kthvalue, (void)kthvalue(t[0], 1), x()),
      CALL(median, (void)median(t[0]), x()),
      CALL(median, (void)median(t[0], 0), x()),
      CALL(unique, (void)tendril::unique(t[0]), x()),
      CALL(unique_consecutive, (void)unique_consecutive(t[0]), x()),
      CALL(bincount, (void)bincount(t[0]), line()),
      CALL(histc, (void)histc(t[0]), x()),
      CALL(histogram, (void)histogram(t[0], t[1]), x(), linspace(0, 2, 3)),
      CALL(searchsorted, (void)searchsorted(t[0], t[1]), ones({2}), x()),
      CALL(einsum, (void)einsum("ij,ij", t), x(), x()),
      CALL(baddbmm, (void)baddbmm(t[0], t[1], t[2]), ones({1, 1, 1}), ones({1, 1, 1}), ones({1, 1, 1})),
      CALL(outer, (void)outer(t[0], t[1]), ones({2}), ones({2})),
      CALL(multinomial, (void)multinomial(t[0], 1), x()),
      CALL(rand_like, (void)rand_like(t[0]), x()),
      CALL(randn_like, (void)randn_like(t[0]), x()),
      CALL(equal, (void)equal(t[0], t[1]), x(), x()),
      CALL(allclose, (void)allclose(t[0], t[1]), x(), x()),
  };
}

void check(const Call& one) {
  Tensors given = one.arguments();
  const std::string name = one.name, op = *one.op ? one.op : name.substr(0, name.find('<'));
  BOOST_TEST_CONTEXT(name) {
    BOOST_CHECK_NO_THROW(one.call(given));
    for (std::size_t i = 0; i < given.size(); ++i) {
      given = one.arguments();
      given[i] = Tensor();
      BOOST_TEST_CONTEXT("argument " << i) {
        try {
          one.call(given);
          BOOST_ERROR("no error");
        } catch (const Error& error) {
          const std::string text = error.what();
          BOOST_TEST(text.find("undefined") != std::string::npos, text);
          BOOST_TEST(text.substr(0, text.find(':')).find(op) != std::string::npos, text);
        }
      }
    }
  }
}

/// Every name that a header declares a function of tensors by.
std::set<std::string> declared() {
  const std::filesystem::path root = TENDRIL_TEST_DATA "/../../..";
  std::vector<std::filesystem::path> headers = {root / "tensor/raw.h",           root / "tensor/drivers/reduction.h",
                                                root / "tensor/drivers/along.h", root / "tensor/drivers/by_index.h",
                                                root / "tensor/creation.h",      root / "nn/init.h",
                                                root / "autograd/backward.h",    root / "autograd/gradcheck.h"};
  for (const auto& entry : std::filesystem::directory_iterator(root / "autograd/ops")) {
    if (entry.path().extension() == ".h") headers.push_back(entry.path());
  }
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return std::regex_replace(text.str(), std::regex("//[^\n]*|#[^\n]*(\\\\\n[^\n]*)*"), "");
  };
  std::set<std::string> names;
  const auto add_all = [&](const std::string& text, const std::regex& pattern) {
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
      names.insert((*match)[1]);
    }
  };
  for (const auto& header : headers) add_all(text_of(header), std::regex("\\b(\\w+)\\([^();]*\\bTensor\\b"));
  const std::string tensor = text_of(root / "tensor/tensor.h");
  const std::size_t begin = tensor.find("class Tensor {"), end = tensor.find(" private:", begin);
  add_all(tensor.substr(begin, end - begin), std::regex("[\\w>&] (\\w+)\\([^;{}]*\\)(?: const)?(?: noexcept)?[;\\s]"));
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(in_pointwise_functions_it_is_an_error) {
  for (const Call& one : pointwise()) check(one);
}
BOOST_AUTO_TEST_CASE(in_methods_it_is_an_error) {
  for (const Call& one : methods()) check(one);
}
BOOST_AUTO_TEST_CASE(in_functions_it_is_an_error) {
  for (const Call& one : functions()) check(one);
  for (const Call& one : functions_of_places()) check(one);
  for (const Call& one : functions_of_raw()) check(one);
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_leaf_that_has_none_is_refused_by_name) {
  const Tensor p = leaf();
  BOOST_CHECK_EXCEPTION(p.grad().mul_(2), Error, [](const Error& error) {
    return error.what() == std::string("mul_: the tensor is undefined");
  });
}

BOOST_AUTO_TEST_CASE(every_declared_function_is_among_those_that_are_called) {
  std::set<std::string> called;
  for (const auto& calls : {pointwise(), methods(), functions_of_raw(), functions(), functions_of_places()}) {
    for (const Call& one : calls) called.insert(std::string(one.name).substr(0, std::string(one.name).find('<')));
  }
  // Those that an undefined tensor may be asked, those that hand its body on (null), one that is private (x[{...}] +=
  // calls it), and names that are no functions.
  const std::set<std::string> allowed = {"defined", "is_same", "impl", "impl_ref", "requires_grad", "to_string",
                                         "Tensor",  "body",    "name", "put",      "is_floating"};
  const std::set<std::string> names = declared();
  BOOST_TEST(names.size() > 100u);  // the headers were found and understood
  for (const std::string& name : names) {
    BOOST_TEST((called.contains(name) || allowed.contains(name)), name << " is not called");
  }
}

BOOST_AUTO_TEST_SUITE_END()
