// Free functions of tensor/, autograd/ and nn/, and layers and optimizers.
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
#include "tendril/autograd/ops/scan.h"
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
      {"scan", GIVEN(x()), [](Tensors& t) { (void)drivers::scan(Scan::sum, t[0], 0); }, "cumsum"},
      {"running_extremum", GIVEN(x()), [](Tensors& t) { (void)drivers::running_extremum(true, t[0], 0); }, "cummax"},
      CALL(recurrence, (void)drivers::recurrence(t[0], t[1], 0, false), x(), x()),
      {"find_recurrence", GIVEN(x(), x()), [](Tensors& t) { (void)drivers::find_recurrence(t[0], t[1], 0, false); },
       "recurrence"},
      {"fill_scan", GIVEN(x(), index(), x()), [](Tensors& t) { drivers::fill_scan(Scan::max, t[0], t[1], t[2], 0); },
       "cummax"},
      {"along", GIVEN(x()), [](Tensors& t) { (void)drivers::along(&Kernels::softmax, "softmax", t[0], 0); }, "softmax"},
      {"extremum", GIVEN(x()), [](Tensors& t) { (void)drivers::extremum(true, t[0], 0, false, true, "max"); }, "max"},
      {"sort_places", GIVEN(x()), [](Tensors& t) { (void)drivers::sort_places(t[0], 0, false); }, "sort"},
      {"reduce_to", GIVEN(x()),
       [](Tensors& t) {
         (void)drivers::reduce_to(Reduction::sum, t[0], {1, 1}, {}, "sum");
       },
       "dtype"},
      {"fill_lines", GIVEN(x(), x()),
       [](Tensors& t) { drivers::fill_lines(&Kernels::softmax, "softmax", t[0], t[1], 0); }, "softmax"},
      {"find_extremum", GIVEN(x()), [](Tensors& t) { (void)drivers::find_extremum(true, t[0], 0, true, "max"); },
       "max"},
      {"written", GIVEN(x(), index(), x()),
       [](Tensors& t) {
         (void)drivers::written<drivers::Unrecorded>(drivers::scatter_, "scatter", t[0], 0, t[1], t[2]);
       },
       "scatter"},
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
      CALL(zeros_like, (void)zeros_like(t[0]), x()),
      CALL(ones_like, (void)ones_like(t[0]), x()),
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
      CALL(linear_relu, (void)linear_relu(t[0], t[1]), x(), x()),
      CALL(linear_gelu_tanh, (void)linear_gelu_tanh(t[0], t[1]), x(), x()),
      CALL(sum_to, (void)sum_to(t[0], {3}), x()),
      CALL(softmax, (void)softmax(t[0], 0), x()),
      CALL(log_softmax, (void)log_softmax(t[0], 0), x()),
      CALL(logsumexp, (void)logsumexp(t[0], 0), x()),
      CALL(cumsum, (void)cumsum(t[0], 0), x()),
      CALL(cumprod, (void)cumprod(t[0], 0), x()),
      CALL(cummax, (void)cummax(t[0], 0), x()),
      CALL(cummin, (void)cummin(t[0], 0), x()),
      CALL(logcumsumexp, (void)logcumsumexp(t[0], 0), x()),
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

}  // namespace tendril::undefined_calls
