#include "tests/autograd/samples/samples.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/gradcheck.h"
#include "tendril/autograd/history.h"
#include "tendril/tensor/random.h"
#include "tendril/tensor/raw.h"
#include "tests/seed.h"

namespace tendril::samples {

namespace {

enum class Layout { contiguous, transposed, strided, broadcast, channels_last };
constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::strided, Layout::broadcast,
                               Layout::channels_last};
constexpr const char* kLayoutNames[] = {"contiguous", "transposed", "strided", "broadcast", "channels last"};

/// The shape of the leaf from which `lay` makes a tensor of shape `wanted`.
Dims leaf_shape(const Dims& wanted, Layout layout) {
  Dims shape = wanted;
  if (layout == Layout::transposed) std::reverse(shape.begin(), shape.end());
  if (wanted.empty()) return shape;
  if (layout == Layout::strided) shape[wanted.size() - 1] *= 2;
  if (layout == Layout::broadcast) shape[0] = 1;
  return shape;
}

Tensor lay(const Tensor& leaf, const Dims& wanted, Layout layout) {
  switch (layout) {
    case Layout::contiguous:
      return leaf;
    case Layout::transposed: {
      Dims order;
      for (int d = leaf.dim() - 1; d >= 0; --d) order.push_back(d);
      return leaf.permute(order);
    }
    case Layout::strided:
      return wanted.empty() ? leaf : leaf.slice(-1, 1, INT64_MAX, 2);
    case Layout::broadcast:
      return wanted.empty() ? leaf : leaf.expand(wanted);
    case Layout::channels_last:
      return wanted.size() == 4 ? leaf.to(MemoryFormat::channels_last) : leaf;
  }
  return leaf;
}

/// Returns different random values for input number `input`: (k + offset) / 1000 for integers k, where each input has
/// its own offset. For every seed they are many steps of gradcheck away from the points where functions have kinks:
/// multiples of 1/2000, ties, and multiples of the values of other inputs. No absolute value is below `least`.
/// `distinct`: returns equally spaced values in a random order instead.
Tensor random_leaf(const Dims& shape, Range range, bool distinct, std::size_t input, double least,
                   Generator& generator) {
  const auto count = static_cast<std::size_t>(numel_of(shape));
  std::vector<double> values(count);
  if (distinct) {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = range.low + (range.high - range.low) * (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    }
    for (std::size_t i = count; i > 1; --i) std::swap(values[i - 1], values[generator.below(i)]);
  } else {
    constexpr double offsets[] = {0.45, 0.3, 0.2, 0.7, 0.85, 0.6};
    const double offset = offsets[input % std::size(offsets)];
    const auto low = static_cast<int64_t>(std::ceil(range.low * 1000)),
               steps = static_cast<int64_t>(std::floor(range.high * 1000)) - low;
    for (auto next = values.begin(); next != values.end();) {
      *next = (static_cast<double>(low) + static_cast<double>(generator.below(static_cast<uint64_t>(steps))) + offset) /
              1000;
      if (std::abs(*next) >= least && std::find(values.begin(), next, *next) == next) ++next;
    }
  }
  return raw::from_data(values, shape).to(default_device());
}

std::vector<Tensor> leaves(const OpSample& sample, const std::vector<Dims>& shapes, Layout layout, uint64_t seed,
                           double least = 0.1) {
  Generator generator(testing::test_seed(seed));
  for (int tries = 0;; ++tries) {
    std::vector<Tensor> inputs, laid;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Range range = i < sample.ranges.size() ? sample.ranges[i] : Range{};
      inputs.push_back(random_leaf(leaf_shape(shapes[i], layout), range, sample.distinct, i,
                                   range.high >= 1 ? least : 0.1, generator));
      laid.push_back(lay(inputs.back(), shapes[i], layout));
    }
    if (!sample.kink || tries == 1000) return inputs;
    const Tensor distances = sample.kink(laid).abs();
    if (distances.numel() == 0 || distances.min().item<double>() > 0.02) return inputs;
  }
}

std::string describe(const OpSample& sample, const std::vector<Dims>& shapes, const char* layout) {
  std::ostringstream out;
  out << sample.name << " of";
  for (const Dims& shape : shapes) out << ' ' << shape;
  out << ", " << layout << ": ";
  return out.str();
}

std::string check_call(const OpSample& sample, const std::vector<Dims>& shapes, Layout layout,
                       const std::vector<bool>& requires_grad) {
  std::vector<Tensor> inputs = leaves(sample, shapes, layout, 17);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (requires_grad[i]) inputs[i].requires_grad_();
  }
  const auto f = [&](const std::vector<Tensor>& given) {
    std::vector<Tensor> laid;
    for (std::size_t i = 0; i < given.size(); ++i) laid.push_back(lay(given[i], shapes[i], layout));
    return sample.f(laid);
  };
  auto result = autograd::gradcheck(f, inputs, {.eps = sample.eps});
  if (result) result = autograd::gradgradcheck(f, inputs, {.eps = sample.eps});
  return result ? "" : describe(sample, shapes, kLayoutNames[static_cast<int>(layout)]) + result.message;
}

void collect(const autograd::Edge& edge, std::set<const autograd::Node*>& seen, std::set<std::string>& names) {
  if (!edge || edge.node->is_leaf() || !seen.insert(edge.node.get()).second) return;
  names.insert(edge.node->name());
  for (const autograd::Edge& next : edge.node->edges()) collect(next, seen, names);
}

}  // namespace

std::string check(const OpSample& sample) {
  if (sample.shapes.size() < 3) return sample.name + ": fewer than three shapes";
  const bool everything = default_device().is_cpu();
  for (const std::vector<Dims>& shapes : sample.shapes) {
    const bool first = &shapes == sample.shapes.data();
    for (const Layout layout : kLayouts) {
      if (sample.distinct && layout == Layout::broadcast) continue;  // equal values
      const auto is_image = [](const Dims& sizes) { return sizes.size() == 4; };
      if (layout == Layout::channels_last && std::ranges::none_of(shapes, is_image)) continue;
      if (!everything && !first && layout != Layout::contiguous) continue;
      if (auto problem = check_call(sample, shapes, layout, std::vector<bool>(shapes.size(), true)); !problem.empty()) {
        return problem;
      }
    }
    if (!everything && !first) continue;
    for (std::size_t alone = 0; shapes.size() > 1 && alone < shapes.size(); ++alone) {
      std::vector<bool> requires_grad(shapes.size(), false);
      requires_grad[alone] = true;
      if (auto problem = check_call(sample, shapes, Layout::contiguous, requires_grad); !problem.empty()) {
        return "only input " + std::to_string(alone) + " requires a gradient: " + problem;
      }
    }
  }
  return "";
}

std::string check_half(const OpSample& sample, DType dtype, double roundings) {
  const double unit = dtype == kFloat16 ? 0x1p-11 : 0x1p-8;
  for (const std::vector<Dims>& shapes : sample.shapes) {
    // Keeps divisors away from 0: sums of large quotients may cancel, which leaves only rounding errors.
    const std::vector<Tensor> given = leaves(sample, shapes, Layout::contiguous, 17, 0.5);
    const auto run = [&](DType as) {
      std::vector<Tensor> inputs, all;
      for (const Tensor& x : given) inputs.push_back(x.to(dtype).to(as).clone().requires_grad_());
      for (const Tensor& y : sample.f(inputs)) {
        all.push_back(y);
        if (!y.requires_grad()) continue;
        std::vector<double> g;  // not all alike: the gradients of normalisations would be what is left of 0
        for (int64_t i = 0; i < y.numel(); ++i) g.push_back(static_cast<double>(i * 5 % 7 - 3) / 4 + 0.125);
        y.backward(raw::from_data(g, y.sizes()).to(y.dtype()).to(y.device()), {.retain_graph = true});
      }
      for (const Tensor& x : inputs) all.push_back(x.grad());
      return all;
    };
    try {
      const std::vector<Tensor> exact = run(kFloat64), got = run(dtype);
      // Over operands, results and gradients: intermediate values of this size are rounded, and their sums may cancel.
      double largest = 0;
      std::vector<Tensor> all = exact;
      all.insert(all.end(), given.begin(), given.end());
      for (const Tensor& one : all) {
        if (!one.defined()) continue;
        for (const double value : one.to_vector<double>()) {
          if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
        }
      }
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::string what = describe(sample, shapes, name_of(dtype)) + std::to_string(i) + ": ";
        if (got[i].defined() != exact[i].defined()) return what + "is undefined in one of the two";
        if (!got[i].defined() || got[i].numel() == 0) continue;
        const auto a = got[i].to_vector<double>(), e = exact[i].to_vector<double>();
        for (std::size_t k = 0; k < a.size(); ++k) {
          if (std::isnan(a[k]) && std::isnan(e[k])) continue;
          if (std::abs(a[k] - e[k]) <= roundings * unit * largest + 1e-6) continue;
          return what + std::to_string(a[k]) + ", expected " + std::to_string(e[k]);
        }
      }
    } catch (const Error& error) {
      return describe(sample, shapes, name_of(dtype)) + error.what();
    }
  }
  return "";
}

std::vector<std::string> nodes_of(const OpSample& sample) {
  std::set<std::string> names;
  for (const std::vector<Dims>& shapes : sample.shapes) {
    std::vector<Tensor> inputs = leaves(sample, shapes, Layout::contiguous, 17);
    for (Tensor& input : inputs) input.requires_grad_();
    std::set<const autograd::Node*> seen;
    for (const Tensor& output : sample.f(inputs)) {
      if (!output.requires_grad()) continue;
      collect(autograd::gradient_edge(output), seen, names);
      const Tensor g = raw::ones(output.sizes(), output.dtype(), output.device()).requires_grad_();
      for (const Tensor& gradient :
           autograd::grad({output}, inputs, {g}, {.create_graph = true, .allow_unused = true})) {
        if (gradient.defined() && gradient.requires_grad()) collect(autograd::gradient_edge(gradient), seen, names);
      }
    }
  }
  return {names.begin(), names.end()};
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = {{"unary", unary_samples},         {"binary", binary_samples},
                                          {"select", select_samples},       {"inplace", inplace_samples},
                                          {"reduce", reduce_samples},       {"softmax", softmax_samples},
                                          {"matmul", matmul_samples},       {"views", views_samples},
                                          {"window", window_samples},       {"join", join_samples},
                                          {"index", index_samples},         {"copies", copies_samples},
                                          {"dropout", dropout_samples},     {"embedding", embedding_samples},
                                          {"loss", loss_samples},           {"lstm", lstm_samples},
                                          {"conv", conv_samples},           {"norm", norm_samples},
                                          {"pool", pool_samples},           {"layer_norm", layer_norm_samples},
                                          {"indexing", indexing_samples},   {"rearrange", rearrange_samples},
                                          {"combined", combined_samples},   {"sort", sort_samples},
                                          {"einsum", einsum_samples},       {"loss_pairs", loss_pairs_samples},
                                          {"attention", attention_samples}, {"scan", scan_samples}};
  return all;
}

}  // namespace tendril::samples
