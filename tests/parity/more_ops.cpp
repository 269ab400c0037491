// The operations, layers and optimizers of ordinary models: what places.py and training.py draw.
#include <cmath>
#include <memory>

#include "tendril/autograd/ops/activation.h"
#include "tendril/autograd/ops/attention.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/interpolate.h"
#include "tendril/autograd/ops/layer_norm.h"
#include "tendril/autograd/ops/loss_pairs.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/autograd/ops/sort.h"
#include "tendril/nn/optim/adagrad.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/adamax.h"
#include "tendril/nn/optim/lr_scheduler.h"
#include "tendril/nn/optim/rmsprop.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/rnn.h"
#include "tendril/nn/utils/clip_grad.h"
#include "tendril/tensor/creation.h"
#include "tests/parity/case.h"
#include "tests/parity/ops.h"

namespace tendril::parity {

namespace {

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Index index_from(const std::string& text, const Environment& environment) {
  if (text[0] == '%') return environment.at(std::stoi(text.substr(1)));
  if (text == "none") return None;
  if (text == "...") return Ellipsis;
  const std::vector<std::string> parts = split_at(text, ':');
  if (parts.size() == 1) return std::stoll(text);
  const auto bound = [](const std::string& part) {
    return part.empty() ? std::nullopt : std::optional<int64_t>(std::stoll(part));
  };
  return slice(bound(parts[0]), bound(parts[1]), parts.size() > 2 ? std::stoll(parts[2]) : 1);
}

/// `{1;-3:5:2;none;...;%4}`
std::vector<Index> indices(const Args& a, std::size_t i) {
  const std::string& word = a.word(i);
  std::vector<Index> all;
  for (const std::string& part : split_at(word.substr(1, word.size() - 2), ';')) {
    if (!part.empty()) all.push_back(index_from(part, a.environment()));
  }
  return all;
}

Tensor put(const Args& a) {
  const Tensor copy = a.tensor(0).clone();
  return index_put_(copy, indices(a, 1), a.tensor(2), a.flag(3));
}

std::vector<int64_t> numbers(const Args& a, std::size_t i) {
  const Dims dims = a.dims(i);
  return {dims.begin(), dims.end()};
}

PadMode pad_mode(const std::string& name) {
  return name == "reflect"     ? PadMode::reflect
         : name == "replicate" ? PadMode::replicate
         : name == "circular"  ? PadMode::circular
                               : PadMode::constant;
}

InterpolateMode resize_mode(const std::string& name) {
  return name == "nearest" ? InterpolateMode::nearest : InterpolateMode::bilinear;
}

Tensors unique_of(const Tensor& x) {
  const Unique found = unique(x);
  return {found.values, found.inverse, found.counts};
}

/// A layer with these weights, which get no gradients here.
template <class Layer>
Tensors recurrent(const Args& a, int64_t gates, nn::RNNOptions options) {
  const Tensor weight_hh = a.tensor(2), h = a.tensor(5), x = a.tensor(0);
  options.dtype = x.dtype();
  options.bias = a.tensor(3).defined();
  Layer layer(x.size(2), weight_hh.size(0) / gates, options);
  StateDict weights{{"weight_ih_l0", a.tensor(1)}, {"weight_hh_l0", weight_hh}};
  if (options.bias) {
    weights.insert("bias_ih_l0", a.tensor(3));
    weights.insert("bias_hh_l0", a.tensor(4));
  }
  layer.load_state_dict(weights);
  layer.requires_grad_(false);
  const auto [output, h_n] = layer(x, h.defined() ? h.unsqueeze(0) : h);
  return {output, h_n.select(0, 0)};
}

// ---- optimizers
using Options = std::map<std::string, double>;

Options options_from(const std::string& word) {
  Options options;
  for (const std::string& part : split_at(word, ';')) {
    const std::size_t equals = part.find('=');
    if (equals != std::string::npos) options[part.substr(0, equals)] = real_from(part.substr(equals + 1));
  }
  return options;
}

/// Gives members the numbers of their names, and counts that all were taken.
class Setter {
 public:
  explicit Setter(const Options& options) : options_(options) {}
  template <class T>
  Setter& operator()(const char* name, T& member) {
    if (const auto found = options_.find(name); found != options_.end()) {
      member = static_cast<T>(found->second);
      ++taken_;
    }
    return *this;
  }
  ~Setter() noexcept(false) { TENDRIL_CHECK(taken_ == options_.size(), "an option is unknown"); }

 private:
  const Options& options_;
  std::size_t taken_ = 0;
};

template <class Class>
std::unique_ptr<optim::Optimizer> optimizer_of(const Tensors& params, const Options& given) {
  typename Class::Options options;
  {
    Setter set(given);
    Class::Options::for_each_field(options, [&](const char* field, auto& member) {
      const std::string name = field;
      set(name == "betas.0" ? "beta1" : name == "betas.1" ? "beta2" : field, member);
    });
  }
  return std::make_unique<Class>(params, options);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, const Tensors& params, const Options& given) {
  if (name == "SGD") return optimizer_of<optim::SGD>(params, given);
  if (name == "Adam") return optimizer_of<optim::Adam>(params, given);
  if (name == "AdamW") return optimizer_of<optim::AdamW>(params, given);
  if (name == "RMSprop") return optimizer_of<optim::RMSprop>(params, given);
  if (name == "Adagrad") return optimizer_of<optim::Adagrad>(params, given);
  TENDRIL_CHECK(name == "Adamax", "no optimizer is called ", name);
  return optimizer_of<optim::Adamax>(params, given);
}

/// What a schedule's step is, whatever it is made of.
using Schedule = std::function<void(int64_t)>;

template <class Class, class... Arguments>
Schedule schedule_of(Arguments&&... arguments) {
  const auto schedule = std::make_shared<Class>(std::forward<Arguments>(arguments)...);
  return [schedule](int64_t) { schedule->step(); };
}

Schedule several(const std::string& name, optim::Optimizer& optimizer, const Options& given) {
  using namespace optim::lr_scheduler;
  const auto warm_up = std::make_shared<LinearLR>(optimizer, LinearLROptions{.start_factor = 0.25, .total_iters = 4});
  if (name == "SequentialLR") {
    const auto cosine = std::make_shared<CosineAnnealingLR>(optimizer, CosineAnnealingLROptions{.T_max = 7});
    const auto all = std::make_shared<SequentialLR>(std::vector<LRScheduler*>{warm_up.get(), cosine.get()},
                                                    std::vector{static_cast<int64_t>(given.at("milestone"))});
    return [warm_up, cosine, all](int64_t) { all->step(); };
  }
  const auto falling = std::make_shared<ExponentialLR>(optimizer, given.at("gamma"));
  const auto all = std::make_shared<ChainedScheduler>(std::vector<LRScheduler*>{warm_up.get(), falling.get()});
  return [warm_up, falling, all](int64_t) { all->step(); };
}

Schedule by_metric(optim::Optimizer& optimizer, const Options& given) {
  using namespace optim::lr_scheduler;
  ReduceLROnPlateauOptions o;
  bool largest = false, absolute = false;
  Setter{given}("factor", o.factor)("patience", o.patience)("cooldown", o.cooldown)("max", largest)("abs", absolute)(
      "threshold", o.threshold)("min_lr", o.min_lr);
  o.mode = largest ? PlateauMode::max : PlateauMode::min;
  o.threshold_mode = absolute ? ThresholdMode::abs : ThresholdMode::rel;
  const auto schedule = std::make_shared<ReduceLROnPlateau>(optimizer, o);
  return
      [schedule](int64_t t) { schedule->step(1.0 + static_cast<double>(t * 7 % 5) - static_cast<double>(t) * 0.05); };
}

Schedule make_schedule(const std::string& name, optim::Optimizer& optimizer, const Options& given) {
  using namespace optim::lr_scheduler;
  if (name == "constant") return [](int64_t) {};
  if (name == "ReduceLROnPlateau") return by_metric(optimizer, given);
  if (name == "SequentialLR" || name == "ChainedScheduler") return several(name, optimizer, given);
  if (name == "ExponentialLR") return schedule_of<ExponentialLR>(optimizer, given.at("gamma"));
  if (name == "StepLR") {
    StepLROptions o;
    Setter{given}("step_size", o.step_size)("gamma", o.gamma);
    return schedule_of<StepLR>(optimizer, o);
  }
  if (name == "MultiStepLR") {
    return schedule_of<MultiStepLR>(optimizer, MultiStepLROptions{{static_cast<int64_t>(given.at("first")),
                                                                   static_cast<int64_t>(given.at("second"))},
                                                                  given.at("gamma")});
  }
  if (name == "LinearLR") {
    LinearLROptions o;
    Setter{given}("start_factor", o.start_factor)("end_factor", o.end_factor)("total_iters", o.total_iters);
    return schedule_of<LinearLR>(optimizer, o);
  }
  if (name == "CosineAnnealingLR") {
    CosineAnnealingLROptions o;
    Setter{given}("T_max", o.T_max)("eta_min", o.eta_min);
    return schedule_of<CosineAnnealingLR>(optimizer, o);
  }
  if (name == "CosineAnnealingWarmRestarts") {
    CosineAnnealingWarmRestartsOptions o;
    Setter{given}("T_0", o.T_0)("T_mult", o.T_mult)("eta_min", o.eta_min);
    return schedule_of<CosineAnnealingWarmRestarts>(optimizer, o);
  }
  TENDRIL_CHECK(name == "OneCycleLR", "no schedule is called ", name);
  OneCycleLROptions o;
  bool linear = false;
  Setter{given}("max_lr", o.max_lr)("total_steps", o.total_steps)("pct_start", o.pct_start)(
      "three_phase", o.three_phase)("linear", linear)("cycle_momentum", o.cycle_momentum);
  o.anneal_strategy = linear ? AnnealStrategy::linear : AnnealStrategy::cos;
  return schedule_of<OneCycleLR>(optimizer, o);
}

/// As train of ops.py.
Tensors train(const Args& a) {
  Tensors params;
  for (const Tensor& x : a.tensors(0)) params.push_back(x.detach().clone().requires_grad_());
  const Tensors gradients = a.tensors(1);
  const auto optimizer = make_optimizer(a.word(2), params, options_from(a.word(3)));
  const Schedule schedule = make_schedule(a.word(4), *optimizer, options_from(a.word(5)));
  for (int64_t t = 0; t < a.integer(6); ++t) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i].set_grad(gradients[i].detach() * (static_cast<double>(t % 3) - 0.5) + params[i].detach() * 0.125);
    }
    optimizer->step();
    schedule(t);
  }
  Tensors results;
  for (const Tensor& x : params) results.push_back(x.detach());
  results.push_back(full({}, optimizer->lr(), {.dtype = kFloat64}));
  return results;
}

Tensors clip(const Args& a) {
  Tensors params, results;
  for (const Tensor& g : a.tensors(0)) {
    params.push_back(zeros_like(g).requires_grad_());
    params.back().set_grad(g.detach().clone());
  }
  results.push_back(nn::utils::clip_grad_norm_(params, a.real(1), {.norm_type = a.real(2)}));
  for (const Tensor& x : params) results.push_back(x.grad());
  return results;
}

}  // namespace

// Those whose gradients are what is left of terms of the size of what comes in are composed.
void add_more_ops(std::map<std::string, Op>& table) {
  using enum Kind;
  // clang-format off
  struct Entry {
    Kind kind;
    const char* name;
    Result (*run)(const Args&);
  };
#define OP(kind, name, expression) {kind, name, [](const Args& a) -> Result { return expression; }},
  const Entry entries[] = {
  // ---- indexing
  OP(exact, "index", index(a.tensor(0), indices(a, 1)).clone())
  OP(summed, "index_put", put(a))
  OP(exact, "masked_select", masked_select(a.tensor(0), a.tensor(1)))
  OP(exact, "nonzero", nonzero(a.tensor(0)))
  OP(exact, "scatter", a.is_tensor(3) ? a.tensor(0).scatter(a.integer(1), a.tensor(2), a.tensor(3)) : a.tensor(0).scatter(a.integer(1), a.tensor(2), a.scalar(3)))
  OP(exact, "take_along_dim", take_along_dim(a.tensor(0), a.tensor(1), a.integer(2)))
  OP(exact, "one_hot", one_hot(a.tensor(0), a.integer(1)))

  // ---- moving elements
  OP(exact, "flip", flip(a.tensor(0), a.dims(1)))
  OP(exact, "roll", roll(a.tensor(0), a.integer(1), a.integer(2)))
  OP(exact, "roll_all", roll(a.tensor(0), a.integer(1)))
  OP(summed, "repeat", repeat(a.tensor(0), a.dims(1)))
  OP(summed, "tile", tile(a.tensor(0), a.dims(1)))
  OP(summed, "repeat_interleave", repeat_interleave(a.tensor(0), a.integer(1), a.integer(2)))
  OP(summed, "pad", pad(a.tensor(0), numbers(a, 1), pad_mode(a.word(2)), a.scalar(3)))
  OP(exact, "tril", tril(a.tensor(0), a.integer(1)))
  OP(exact, "triu", triu(a.tensor(0), a.integer(1)))
  OP(exact, "diag", diag(a.tensor(0), a.integer(1)))
  OP(exact, "diagonal", diagonal(a.tensor(0), a.integer(1), a.integer(2), a.integer(3)))
  OP(summed, "meshgrid", meshgrid(a.tensors(0)))
  OP(exact, "movedim", movedim(a.tensor(0), a.integer(1), a.integer(2)))

  // ---- sorting and counting
  OP(exact, "sort", sort(a.tensor(0), a.integer(1), a.flag(2)))
  OP(exact, "topk", std::get<0>(topk(a.tensor(0), a.integer(1), a.integer(2), a.flag(3))))
  OP(exact, "kthvalue", std::get<0>(kthvalue(a.tensor(0), a.integer(1), a.integer(2), a.flag(3))))
  OP(exact, "median_dim", std::get<0>(median(a.tensor(0), a.integer(1), a.flag(2))))
  OP(exact, "median", median(a.tensor(0)))
  OP(exact, "unique", unique_of(a.tensor(0)))
  OP(exact, "bincount", bincount(a.tensor(0), a.integer(1)))
  OP(exact, "histc", histc(a.tensor(0), a.integer(1), a.real(2), a.real(3)))
  OP(exact, "searchsorted", searchsorted(a.tensor(0), a.tensor(1), a.flag(2)))

  // ---- products along dimensions
  OP(summed, "prod", a.tensor(0).prod())
  OP(summed, "prod_dim", a.tensor(0).prod(a.integer(1), a.flag(2)))
  OP(summed, "cumprod", a.tensor(0).cumprod(a.integer(1)))
  OP(exact, "cummax", a.tensor(0).cummax(a.integer(1)))
  OP(exact, "cummin", a.tensor(0).cummin(a.integer(1)))
  OP(summed, "logcumsumexp", a.tensor(0).logcumsumexp(a.integer(1)))
  OP(composed, "norm", a.tensor(0).norm(a.real(1), a.dims(2), a.flag(3)))
  OP(exact, "all_dim", a.tensor(0).all(a.integer(1), a.flag(2)))
  OP(exact, "any_dim", a.tensor(0).any(a.integer(1), a.flag(2)))
  OP(exact, "argmax_all", a.tensor(0).argmax())
  OP(exact, "argmin_all", a.tensor(0).argmin())
  OP(summed, "einsum", einsum(a.word(0), a.tensors(1)).clone())
  OP(rounded, "outer", outer(a.tensor(0), a.tensor(1)))
  OP(summed, "baddbmm", baddbmm(a.tensor(0), a.tensor(1), a.tensor(2), a.real(3), a.real(4)))

  // ---- activations of several numbers, normalisation, attention
  OP(exact, "hardtanh", hardtanh(a.tensor(0), a.real(1), a.real(2)))
  OP(exact, "threshold", threshold(a.tensor(0), a.real(1), a.real(2)))
  OP(rounded, "softplus_of", softplus(a.tensor(0), a.real(1), a.real(2)))
  OP(summed, "prelu", prelu(a.tensor(0), a.tensor(1)))
  OP(rounded, "glu", glu(a.tensor(0), a.integer(1)))
  OP(composed, "layer_norm", layer_norm(a.tensor(0), a.dims(1), a.tensor(2), a.tensor(3), a.real(4)))
  OP(composed, "rms_norm", rms_norm(a.tensor(0), a.dims(1), a.tensor(2), a.real(3)))
  OP(composed, "group_norm", group_norm(a.tensor(0), a.integer(1), a.tensor(2), a.tensor(3), a.real(4)))
  OP(summed, "attention", scaled_dot_product_attention(a.tensor(0), a.tensor(1), a.tensor(2), {.attn_mask = a.tensor(3), .is_causal = a.flag(4), .scale = a.maybe_real(5)}))
  OP(summed, "interpolate", interpolate(a.tensor(0), {.size = Dims{a.size2(1).h, a.size2(1).w}, .mode = resize_mode(a.word(2)), .align_corners = a.flag(3)}))
  OP(summed, "interpolate_by", interpolate(a.tensor(0), {.scale_factor = {{a.real(1), a.real(2)}}, .mode = resize_mode(a.word(3)), .align_corners = a.flag(4)}))
  OP(summed, "gru", recurrent<nn::GRU>(a, 3, {}))
  OP(summed, "rnn_tanh", recurrent<nn::RNN>(a, 1, {}))
  OP(summed, "rnn_relu", recurrent<nn::RNN>(a, 1, {.nonlinearity = nn::RNNNonlinearity::relu}))

  // ---- losses of pairs
  OP(summed, "bce", binary_cross_entropy(a.tensor(0), a.tensor(1), {a.tensor(2), a.reduction(3)}))
  OP(summed, "bce_with_logits", binary_cross_entropy_with_logits(a.tensor(0), a.tensor(1), {a.tensor(2), a.tensor(3), a.reduction(4)}))
  OP(summed, "l1_loss", l1_loss(a.tensor(0), a.tensor(1), a.reduction(2)))
  OP(summed, "smooth_l1_loss", smooth_l1_loss(a.tensor(0), a.tensor(1), {a.real(2), a.reduction(3)}))
  OP(summed, "huber_loss", huber_loss(a.tensor(0), a.tensor(1), {a.real(2), a.reduction(3)}))
  OP(summed, "kl_div", kl_div(a.tensor(0), a.tensor(1), {.reduction = a.reduction(3), .log_target = a.flag(2)}))
  OP(composed, "cosine_similarity", cosine_similarity(a.tensor(0), a.tensor(1), a.integer(2)))
  OP(composed, "cosine_embedding_loss", cosine_embedding_loss(a.tensor(0), a.tensor(1), a.tensor(2), {a.real(3), a.reduction(4)}))
  OP(summed, "triplet_margin_loss", triplet_margin_loss(a.tensor(0), a.tensor(1), a.tensor(2), {a.real(3), a.real(4), a.real(5), a.flag(6), a.reduction(7)}))

  // ---- training
  OP(composed, "train", train(a))
  OP(summed, "clip_grad_norm", clip(a))
#undef OP
  };
  // clang-format on
  for (const Entry& each : entries) table.insert({each.name, {each.kind, each.run}});
}

}  // namespace tendril::parity
