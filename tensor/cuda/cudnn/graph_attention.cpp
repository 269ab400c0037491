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

/// [batch, rows, columns] without gaps, as cuDNN's [batch, heads, rows, columns] with one head.
Tensor4& lay_out(Tensor4& x, int64_t number, int64_t batch, int64_t rows, int64_t columns) {
  return x.set_uid(number).set_dim({batch, 1, rows, columns}).set_stride({rows * columns, rows * columns, columns, 1});
}
std::shared_ptr<Tensor4> input(DnnGraph& graph, int64_t number, int64_t batch, int64_t rows, int64_t columns) {
  Tensor4 x;
  return graph.tensor(lay_out(x, number, batch, rows, columns));
}
std::shared_ptr<Tensor4> log_sum_of(DnnGraph& graph, const AttentionShape& s) {
  Tensor4 x;
  return graph.tensor(lay_out(x, kLogSum, s.batch, s.queries, 1).set_data_type(fe::DataType_t::FLOAT));
}

std::unique_ptr<DnnGraph> graph_of(const AttentionGraph& a, int capability) {
  const AttentionShape& s = a.shape;
  auto graph = new_graph(s.dtype, capability, name_of(a));
  const auto query = input(*graph, kQuery, s.batch, s.queries, s.width),
             key = input(*graph, kKey, s.batch, s.keys, s.width),
             value = input(*graph, kValue, s.batch, s.keys, s.value_width);
  const auto scale = static_cast<float>(a.scale);
  if (a.backward) {
    const auto out = input(*graph, kOut, s.batch, s.queries, s.value_width),
               g = input(*graph, kG, s.batch, s.queries, s.value_width), log_sum = log_sum_of(*graph, s);
    const auto [dquery, dkey, dvalue] = graph->sdpa_backward(query, key, value, out, g, log_sum,
                                                             fe::graph::SDPA_backward_attributes()
                                                                 .set_attn_scale(scale)
                                                                 .set_causal_mask(a.causal)
                                                                 .set_deterministic_algorithm(deterministic()));
    lay_out(*dquery, kDQuery, s.batch, s.queries, s.width).set_output(true);
    lay_out(*dkey, kDKey, s.batch, s.keys, s.width).set_output(true);
    lay_out(*dvalue, kDValue, s.batch, s.keys, s.value_width).set_output(true);
  } else {
    const auto [out, log_sum] = graph->sdpa(
        query, key, value,
        fe::graph::SDPA_attributes().set_generate_stats(true).set_attn_scale(scale).set_causal_mask(a.causal));
    lay_out(*out, kOut, s.batch, s.queries, s.value_width).set_output(true);
    lay_out(*log_sum, kLogSum, s.batch, s.queries, 1).set_output(true).set_data_type(fe::DataType_t::FLOAT);
  }
  return graph;
}

GraphRules rules() {
  GraphRules result;
  if (deterministic()) result.without.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  return result;
}

using Key = std::array<int64_t, 11>;

/// For all threads. Never destroyed: the library may be gone before static objects are.
struct Plans {
  std::mutex mutex;
  Lru<Key, GraphPlan::Made, WordsHash> cache{256};
};

std::shared_ptr<GraphPlan> plan_for(const AttentionGraph& a) {
  static auto& plans = *new Plans;
  const AttentionShape& s = a.shape;
  const Key key{
      current_device(), static_cast<int64_t>(s.dtype),   s.batch,    s.queries,      s.keys, s.width, s.value_width,
      a.causal,         std::bit_cast<int64_t>(a.scale), a.backward, deterministic()};
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
