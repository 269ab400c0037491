#include <array>
#include <bit>
#include <mutex>

#include "tendril/tensor/cuda/cudnn/graph_plan.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/aligned.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/lru.h"

/// Attention as one operation of cuDNN's (its flash attention), forward and backward.
namespace tendril::cuda {
namespace {

const char* name_of(const AttentionGraph& a) { return a.backward ? "attention_backward" : "attention"; }

/// Operands in a graph.
enum : int64_t { kQuery = 1, kKey, kValue, kOut, kLogSum, kG, kDQuery, kDKey, kDValue };

using Tensor4 = fe::graph::Tensor_attributes;

Tensor4& lay_out(Tensor4& x, int64_t number, const AttentionGraph& a, int64_t rows, int64_t columns,
                 const AttentionGraph::Strides& by) {
  return x.set_uid(number).set_dim({a.batch, a.heads, rows, columns}).set_stride({by.batch, by.head, by.row, 1});
}
std::shared_ptr<Tensor4> input(DnnGraph& graph, int64_t number, const AttentionGraph& a, int64_t rows, int64_t columns,
                               const AttentionGraph::Strides& by) {
  Tensor4 x;
  return graph.tensor(lay_out(x, number, a, rows, columns, by));
}
/// A number a query, without gaps.
Tensor4& lay_out_log_sum(Tensor4& x, const AttentionGraph& a) {
  return lay_out(x, kLogSum, a, a.queries, 1, {a.heads * a.queries, a.queries, 1}).set_data_type(fe::DataType_t::FLOAT);
}

std::unique_ptr<DnnGraph> graph_of(const AttentionGraph& a, int capability) {
  auto graph = new_graph(a.dtype, capability, name_of(a));
  const auto query = input(*graph, kQuery, a, a.queries, a.width, a.query),
             key = input(*graph, kKey, a, a.keys, a.width, a.key),
             value = input(*graph, kValue, a, a.keys, a.value_width, a.value);
  const auto scale = static_cast<float>(a.scale);
  if (a.backward) {
    Tensor4 number;
    const auto out = input(*graph, kOut, a, a.queries, a.value_width, a.out),
               g = input(*graph, kG, a, a.queries, a.value_width, a.g),
               log_sum = graph->tensor(lay_out_log_sum(number, a));
    const auto [dquery, dkey, dvalue] = graph->sdpa_backward(query, key, value, out, g, log_sum,
                                                             fe::graph::SDPA_backward_attributes()
                                                                 .set_attn_scale(scale)
                                                                 .set_causal_mask(a.causal)
                                                                 .set_deterministic_algorithm(deterministic()));
    lay_out(*dquery, kDQuery, a, a.queries, a.width, a.dquery).set_output(true);
    lay_out(*dkey, kDKey, a, a.keys, a.width, a.dkey).set_output(true);
    lay_out(*dvalue, kDValue, a, a.keys, a.value_width, a.dvalue).set_output(true);
  } else {
    const auto [out, log_sum] = graph->sdpa(
        query, key, value,
        fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(scale).set_causal_mask(a.causal));
    lay_out(*out, kOut, a, a.queries, a.value_width, a.out).set_output(true);
    lay_out_log_sum(*log_sum, a).set_output(true);
  }
  return graph;
}

GraphRules rules() {
  GraphRules result;
  if (deterministic()) result.without.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  return result;
}

using Key = std::array<int64_t, 36>;

/// For all threads. Never destroyed: the library may be gone before static objects are.
struct Plans {
  std::mutex mutex;
  Lru<Key, GraphPlan::Made, WordsHash> cache{256};
};

std::shared_ptr<GraphPlan> plan_for(const AttentionGraph& a) {
  static auto& plans = *new Plans;
  Key key{current_device(), static_cast<int64_t>(a.dtype),
          a.batch,          a.heads,
          a.queries,        a.keys,
          a.width,          a.value_width,
          a.causal,         std::bit_cast<int64_t>(a.scale),
          a.backward,       deterministic()};
  auto next = key.begin() + 12;
  for (const AttentionGraph::Strides* by : {&a.query, &a.key, &a.value, &a.out, &a.g, &a.dquery, &a.dkey, &a.dvalue}) {
    for (const int64_t stride : {by->batch, by->head, by->row}) *next++ = stride;
  }
  const std::lock_guard lock(plans.mutex);
  const GraphPlan::Made made = plans.cache.get(
      key, [&] { return GraphPlan::make(name_of(a), graph_of(a, capability(name_of(a))), rules(), nullptr); });
  if (!made.may_be_kept) plans.cache.drop(key);
  return made.plan;
}

/// The operands of a call, where tensor cores can have them.
class Operands {
 public:
  explicit Operands(const char* op) : op_(op) {}
  void read(int64_t number, const View& x) {
    bindings[number] = const_cast<void*>(next().read(op_, x.data, bytes_of(x)));
  }
  void write(int64_t number, const View& x) { bindings[number] = next().write(x.data, bytes_of(x)); }
  void run(const AttentionGraph& a) {
    const std::shared_ptr<GraphPlan> plan = plan_for(a);
    TENDRIL_CHECK(plan && plan->run(op_, bindings), op_,
                  ": cuDNN did not run its plan: no memory for it, or what was said before");
    for (const Aligned& operand : aligned_) operand.written(op_);
  }

  Bindings bindings;

 private:
  static std::size_t bytes_of(const View& x) { return static_cast<std::size_t>(x.numel) * size_of(x.dtype); }
  Aligned& next() { return aligned_[count_++]; }

  const char* op_;
  std::array<Aligned, 9> aligned_;
  std::size_t count_ = 0;
};

}  // namespace

bool has_plan(const AttentionGraph& graph) { return plan_for(graph) != nullptr; }

void attend(const AttentionGraph& graph, const View& out, const View& log_sum, const View& query, const View& key,
            const View& value) {
  Operands operands(name_of(graph));
  operands.read(kQuery, query);
  operands.read(kKey, key);
  operands.read(kValue, value);
  operands.write(kOut, out);
  operands.write(kLogSum, log_sum);
  operands.run(graph);
}

void attend_backward(const AttentionGraph& graph, const View& dquery, const View& dkey, const View& dvalue,
                     const View& g, const View& out, const View& log_sum, const View& query, const View& key,
                     const View& value) {
  Operands operands(name_of(graph));
  operands.read(kQuery, query);
  operands.read(kKey, key);
  operands.read(kValue, value);
  operands.read(kOut, out);
  operands.read(kLogSum, log_sum);
  operands.read(kG, g);
  operands.write(kDQuery, dquery);
  operands.write(kDKey, dkey);
  operands.write(kDValue, dvalue);
  operands.run(graph);
}

std::string why_not(const AttentionGraph& graph, const AbsentDevice& device) {
  return why_not(graph_of(graph, device.capability), rules(), device);
}

}  // namespace tendril::cuda
