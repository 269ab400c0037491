#include <array>
#include <mutex>

#include "tendril/tensor/cuda/cudnn/conv_key.h"
#include "tendril/tensor/cuda/cudnn/graph_plan.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime/aligned.h"
#include "tendril/tensor/cuda/runtime/lru.h"

/// A convolution with what follows it, a bias and a relu, as one kernel.
namespace tendril::cuda {
namespace {

/// Operands in a graph.
enum : int64_t { kX = 1, kWeight, kBias, kOut };

using Tensor4 = fe::graph::Tensor_attributes;

std::vector<int64_t> sizes_of(const View& x) { return {x.sizes, x.sizes + x.ndim}; }
std::vector<int64_t> strides_of(const View& x, bool channels_last) {
  const int64_t c = x.sizes[1], h = x.sizes[2], w = x.sizes[3];
  return channels_last ? std::vector<int64_t>{c * h * w, 1, w * c, c} : std::vector<int64_t>{c * h * w, h * w, w, 1};
}

std::unique_ptr<DnnGraph> graph_of(const Conv& c, const View* bias, bool relu, int capability) {
  const char* op = name_of(c.map);
  auto graph = new_graph(c.x.dtype, capability, op);
  const auto input = [&](int64_t number, const View& x) {
    return graph->tensor(Tensor4().set_uid(number).set_dim(sizes_of(x)).set_stride(strides_of(x, c.channels_last)));
  };
  const ConvGeometry& g = c.geometry;
  auto y = graph->conv_fprop(input(kX, c.x), input(kWeight, c.weight),
                             fe::graph::Conv_fprop_attributes()
                                 .set_padding({g.padding.h, g.padding.w})
                                 .set_stride({g.stride.h, g.stride.w})
                                 .set_dilation({g.dilation.h, g.dilation.w}));
  if (bias) {
    const int64_t channels = bias->numel;
    y = graph->pointwise(y,
                         graph->tensor(Tensor4()
                                           .set_uid(kBias)
                                           .set_dim({1, channels, 1, 1})
                                           .set_stride({channels, 1, 1, 1})
                                           .set_data_type(graph_type(bias->dtype, op))),
                         fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  if (relu) y = graph->pointwise(y, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  y->set_uid(kOut).set_output(true).set_dim(sizes_of(c.out)).set_stride(strides_of(c.out, c.channels_last));
  return graph;
}

GraphRules rules_for(const Conv& c) {
  using Note = fe::NumericalNote_t;
  GraphRules rules{{Note::REDUCED_PRECISION_REDUCTION, Note::DOWN_CONVERT_INPUTS}, time_plans()};
  if (c.x.dtype == kFloat32 && !convolution_tf32()) rules.without.push_back(Note::TENSOR_CORE);
  if (deterministic()) rules.without.push_back(Note::NONDETERMINISTIC);
  return rules;
}

struct Key {
  ConvKey conv;
  std::array<int64_t, 4> rest;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept { return WordsHash()(key.conv) ^ WordsHash()(key.rest); }
};

/// For all threads. Never destroyed: the library may be gone before static objects are.
struct Plans {
  std::mutex mutex;
  Lru<Key, GraphPlan::Made, KeyHash> cache{1024};
};

/// Groups are for the other interface: cuDNN's graphs have few engines for them.
bool can_be_said(const Conv& c) { return c.map == ConvMap::out && c.x.dtype != kFloat64 && c.geometry.groups == 1; }

}  // namespace

bool convolve_by_graph(const Conv& conv, const View* bias, bool relu) {
  if (!can_be_said(conv)) return false;
  static auto& plans = *new Plans;
  const char* op = name_of(conv.map);
  const auto bytes = [](const View& x) { return static_cast<std::size_t>(x.numel) * size_of(x.dtype); };
  Aligned x, weight, shift, out;  // where tensor cores may have them
  Bindings bindings{{kX, const_cast<void*>(x.read(op, conv.x.data, bytes(conv.x)))},
                    {kWeight, const_cast<void*>(weight.read(op, conv.weight.data, bytes(conv.weight)))},
                    {kOut, out.write(conv.out.data, bytes(conv.out))}};
  if (bias) bindings[kBias] = const_cast<void*>(shift.read(op, bias->data, bytes(*bias)));
  GraphPlan::Made made;
  {
    const GraphRules rules = rules_for(conv);
    const Key key{conv_key(conv, convolution_tf32()),
                  {bias ? 1 + static_cast<int64_t>(bias->dtype) : 0, relu, rules.timed}};
    const std::lock_guard lock(plans.mutex);
    made = plans.cache.get(
        key, [&] { return GraphPlan::make(op, graph_of(conv, bias, relu, capability(op)), rules, &bindings); });
    if (!made.may_be_kept) plans.cache.drop(key);
  }
  if (!made.plan || !made.plan->run(op, bindings)) return false;
  out.written(op);
  return true;
}

std::string why_not(const Conv& conv, const View* bias, bool relu, const AbsentDevice& device) {
  return can_be_said(conv) ? why_not(graph_of(conv, bias, relu, device.capability), rules_for(conv), device)
                           : "not put so";
}

}  // namespace tendril::cuda
