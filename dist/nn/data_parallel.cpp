#include "tendril/dist/nn/data_parallel.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tendril/autograd/engine.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist {

using tendril::autograd::Edge;
using tendril::autograd::GraphTask;
using tendril::autograd::Node;

namespace {
/// Throws CollectiveError at all members unless their modules have the same parameters and buffers.
void check_same(nn::Module& module, ProcessGroup& group, const CollectiveOptions& options);
}  // namespace

/// Receives the gradients of a backward: copies those of the module's parameters into buckets, and adds others to
/// `.grad` or to a context.
class DistributedDataParallel::Reducer final : public tendril::autograd::GradientSink {
 public:
  struct Parameter {
    std::string name;
    Tensor tensor;
    Ref<Node> node;  // receives the gradient; null while the parameter is frozen
    std::size_t bucket = 0;
    int64_t begin = 0;  // offset in the bucket
    bool ready = false;
  };
  struct Bucket {
    Tensor flat;
    std::size_t parameters = 0, missing = 0;
    rpc::Future<void> reduced;
  };

  Reducer(nn::Module& module, ProcessGroup& group, const Options& options)
      : module_(module), group_(group), options_(options), all_(module.parameters()) {
    fill_buckets();
    TENDRIL_CHECK(!parameters_.empty(), "DistributedDataParallel: the module has no parameters that require gradients");
  }

  std::size_t num_buckets() const noexcept { return buckets_.size(); }

 private:
  /// Puts the parameters that require gradients, or did so before, into new buckets.
  void fill_buckets() {
    parameters_.clear();
    buckets_.clear();
    std::unordered_set<const TensorImpl*> were_there = std::move(in_buckets_);
    in_buckets_.clear();
    auto named = module_.named_parameters();
    // Backward reaches the last layers first.
    for (auto at = named.rbegin(); at != named.rend(); ++at) {
      if (!at->second.requires_grad() && !were_there.contains(at->second.impl())) continue;
      parameters_.push_back({at->first, at->second});
      in_buckets_.insert(at->second.impl());
    }
    const Tensor* last = nullptr;
    std::vector<int64_t> numels;
    for (Parameter& parameter : parameters_) {
      const Tensor& t = parameter.tensor;
      const auto bytes = [&](int64_t numel) { return static_cast<std::size_t>(numel) * size_of(t.dtype()); };
      if (buckets_.empty() || last->dtype() != t.dtype() || last->device() != t.device() ||
          bytes(numels.back() + t.numel()) > options_.bucket_bytes) {
        buckets_.emplace_back();
        numels.push_back(0);
      }
      last = &t;
      parameter.bucket = buckets_.size() - 1;
      parameter.begin = numels.back();
      numels.back() += t.numel();
      ++buckets_.back().parameters;
      buckets_.back().flat = raw::empty({0}, t.dtype(), t.device());
    }
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      const Tensor& like = buckets_[i].flat;
      buckets_[i].flat = raw::zeros({numels[i]}, like.dtype(), like.device());
    }
  }
  /// Follows parameters that were frozen when the buckets were filled and require gradients now. Collective if there
  /// are any: throws CollectiveError if the members disagree about them.
  void follow_unfrozen() {
    bool unfrozen = false;
    for (const Tensor& tensor : module_.parameters()) {
      if (!tensor.requires_grad() || in_buckets_.contains(tensor.impl())) continue;
      TENDRIL_CHECK(std::ranges::any_of(all_, [&](const Tensor& one) { return one.is_same(tensor); }),
                    "DistributedDataParallel::backward: the module has a parameter of shape ", tensor.sizes(),
                    " that it did not have when this object was made, expected the same parameters; make a new one");
      unfrozen = true;
    }
    if (!unfrozen) return;
    fill_buckets();
    check_same(module_, group_, options_.collectives);
  }

 public:
  void backward(const Tensor& loss) {
    run([&] {
      TENDRIL_CHECK_AS(AutogradError, loss.defined() && loss.numel() == 1 && loss.requires_grad(),
                       "DistributedDataParallel::backward: loss must be one element that requires a gradient");
      const std::vector<Edge> roots{tendril::autograd::gradient_edge(loss)};
      GraphTask task(roots, *this);
      task.add_root(std::size_t{0}, raw::ones(loss.sizes(), loss.dtype(), loss.device()));
      task.run();
      for (const auto& [parameter, average] : averages([](const Parameter& one) { return one.tensor.grad(); })) {
        if (parameter->node) parameter->tensor.set_grad(average);
      }
    });
  }

  /// `backward` runs a backward of the context.
  template <class F>
  void backward_in(const autograd::Context& context, const F& backward) {
    run([&] {
      autograd::Container& container = *context.container();
      {
        const auto taking = container.intercept_gradients(
            context.id(), [this](const Ref<Node>& leaf, const Tensor& gradient, const autograd::Gradients& held) {
              const auto before = held.entries().find(leaf.get());
              return take(*leaf, gradient, before == held.entries().end() ? Tensor() : before->second.gradient);
            });
        backward();
      }
      const autograd::Gradients held = container.gradients(context.id());
      std::vector<autograd::Gradients::Entry> entries;
      for (auto& [parameter, average] : averages([&](const Parameter& one) { return held.find(one.tensor); })) {
        if (parameter->node) entries.push_back({parameter->node, std::move(average)});
      }
      container.set_gradients(context.id(), entries);
    });
  }

  void accumulate(const Edge& target, Tensor gradient) override {
    auto& leaf = static_cast<tendril::autograd::AccumulateGrad&>(*target.node);
    if (!take(leaf, gradient, leaf.grad())) leaf.accumulate(std::move(gradient));
  }

 private:
  template <class F>
  void run(const F& backward) {
    try {
      follow_unfrozen();
      find_nodes();
      backward();
    } catch (const std::exception& error) {
      end_launched(error.what());
      throw;
    } catch (...) {
      end_launched("an exception that is not derived from std::exception");
      throw;
    }
  }

  /// Prepares for a backward. Nodes are looked up each time: after a cast a parameter has a new node, perhaps at the
  /// address of an old node of another parameter, and a frozen parameter does not have one.
  void find_nodes() {
    index_.clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      Parameter& parameter = parameters_[i];
      parameter.ready = false;
      parameter.node =
          parameter.tensor.requires_grad() ? tendril::autograd::gradient_edge(parameter.tensor).node : nullptr;
      if (parameter.node) index_.emplace(parameter.node.get(), i);
    }
    for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
    next_ = 0;
  }

  /// Moves a parameter's gradient, plus the one that it had before, into its bucket. Returns false for other tensors.
  bool take(const Node& leaf, const Tensor& gradient, const Tensor& before) {
    const auto found = index_.find(&leaf);
    if (found == index_.end()) return false;
    Parameter& parameter = parameters_[found->second];
    TENDRIL_CHECK_AS(AutogradError, !parameter.ready, "DistributedDataParallel::backward: '", parameter.name,
                     "' received gradients of two concurrent backwards");
    raw::copy_(part_of(parameter), gradient);
    if (before.defined()) raw::binary_(Binary::add, part_of(parameter), before);
    parameter.ready = true;
    if (--buckets_[parameter.bucket].missing == 0) launch();
    return true;
  }

  Tensor part_of(const Parameter& parameter) const {
    const Tensor flat = raw::narrow(buckets_[parameter.bucket].flat, 0, parameter.begin, parameter.tensor.numel());
    return raw::reshape(flat, parameter.tensor.sizes());
  }
  /// Starts to average complete buckets, in the same order on all members even if they complete in another order.
  void launch() {
    for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
      Bucket& bucket = buckets_[next_];
      bucket.reduced = group_.all_reduce_async(bucket.flat, ReduceOp::average, options_.collectives);
    }
  }
  /// Aborts the group, which ends its operations and informs the other members. Then waits for the operations, because
  /// until they end they write into the buckets.
  void end_launched(const std::string& why) {
    group_.abort(why);
    for (Bucket& bucket : buckets_) {
      try {
        if (bucket.reduced.valid()) std::exchange(bucket.reduced, {}).wait();
      } catch (...) {  // an earlier error is rethrown
      }
    }
  }

  /// Waits for all buckets and returns the averages of the parameters that have gradients on some member. `held`
  /// returns the gradient that a parameter had before; it is not called for frozen parameters.
  template <class Held>
  std::vector<std::pair<const Parameter*, Tensor>> averages(const Held& held) {
    std::vector<const Parameter*> unused;
    for (const Parameter& parameter : parameters_) {
      if (!parameter.ready) unused.push_back(&parameter);
    }
    std::string names;  // of unused parameters that are not frozen
    for (const Parameter* parameter : unused) {
      if (parameter->node) names += (names.empty() ? "'" : ", '") + parameter->name + "'";
    }
    if (!names.empty() && !options_.find_unused_parameters) {
      throw Error("DistributedDataParallel::backward: no gradient came for " + names +
                  ": the loss does not depend on them at this member; find_unused_parameters allows that");
    }
    for (const Parameter* parameter : unused) {
      const Tensor before = parameter->node ? held(*parameter) : Tensor();
      if (before.defined()) {
        raw::copy_(part_of(*parameter), before);
      } else {
        raw::fill_(part_of(*parameter), 0);
      }
    }
    for (Bucket& bucket : buckets_) bucket.missing = 0;
    launch();
    const Tensor used = raw::zeros({std::ssize(parameters_)}, kUInt8);
    if (options_.find_unused_parameters) {
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const bool has = parameters_[i].ready || (parameters_[i].node && held(parameters_[i]).defined());
        if (has) raw::fill_(raw::select(used, 0, static_cast<int64_t>(i)), 1);
      }
      group_.all_reduce(used, ReduceOp::max, options_.collectives);
    }
    for (Bucket& bucket : buckets_) std::exchange(bucket.reduced, {}).wait();
    std::vector<std::pair<const Parameter*, Tensor>> averages;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const bool any = !options_.find_unused_parameters || used.data<uint8_t>()[i] != 0;
      if (any) averages.emplace_back(&parameters_[i], raw::clone(part_of(parameters_[i])));
    }
    return averages;
  }

  nn::Module& module_;
  ProcessGroup& group_;
  const Options& options_;
  const std::vector<Tensor> all_;  // the parameters at construction, when all members had the same values
  std::vector<Parameter> parameters_;
  std::unordered_map<const Node*, std::size_t> index_;
  std::unordered_set<const TensorImpl*> in_buckets_;  // the parameters' tensors
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // the first bucket whose averaging has not started
};

namespace {

/// Returns one line for each parameter and buffer, such as "conv.weight float32 [8, 3, 3, 3]".
std::string describe(nn::Module& module) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // other members may have other locales
  for (const auto& [name, tensor] : module.named_parameters()) {
    text << name << " " << tensor.dtype() << " " << tensor.sizes() << (tensor.requires_grad() ? "" : " frozen") << "\n";
  }
  for (const auto& [name, tensor] : module.named_buffers()) {
    text << name << " " << tensor.dtype() << " " << tensor.sizes() << "\n";
  }
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Every member compares its module with that of the first member.
void check_same(nn::Module& module, ProcessGroup& group, const CollectiveOptions& options) {
  const std::string mine = describe(module);
  const Tensor length = raw::full({1}, static_cast<int64_t>(mine.size()), kInt64);
  group.broadcast(length, 0, options);
  constexpr int64_t kMost = int64_t{1} << 26;  // a description takes about 50 bytes per tensor
  const int64_t stated = length.data<int64_t>()[0];
  if (stated < 0 || stated > kMost) {
    group.abort("DistributedDataParallel: worker '" + group.workers()[0].name + "' describes its module in " +
                std::to_string(stated) + " bytes");
    group.barrier(options);  // throws this error
  }
  std::vector<uint8_t> bytes(static_cast<std::size_t>(stated));
  if (group.rank() == 0) bytes.assign(mine.begin(), mine.end());
  const Tensor text = raw::from_data(bytes, {std::ssize(bytes)});
  group.broadcast(text, 0, options);
  const auto* const first = text.data<uint8_t>();
  const std::string theirs(first, first + text.numel());
  // All members learn whether all agree before any of them throws, so that none is left waiting.
  std::string problem;
  const auto a = lines_of(mine), b = lines_of(theirs);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()) && problem.empty(); ++i) {
    const std::string ours = i < a.size() ? a[i] : "nothing", its = i < b.size() ? b[i] : "nothing";
    if (ours != its) problem = "'" + ours + "', where worker '" + group.workers()[0].name + "' has '" + its + "'";
  }
  if (!problem.empty()) group.abort("DistributedDataParallel: its module has " + problem);
  group.barrier(options);
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& module, ProcessGroup& group, const Options& options)
    : module_(module), group_(group), options_(options) {
  check_same(module, group, options.collectives);
  reducer_ = std::make_unique<Reducer>(module, group, options_);
  const NoGrad no_grad;
  for (const Tensor& parameter : module.parameters()) group.broadcast(parameter, 0, options.collectives);
  broadcast_buffers();
}

DistributedDataParallel::~DistributedDataParallel() = default;

std::size_t DistributedDataParallel::num_buckets() const noexcept { return reducer_->num_buckets(); }

void DistributedDataParallel::backward(const Tensor& loss) { reducer_->backward(loss); }

void DistributedDataParallel::backward(const autograd::Context& context, const Tensor& loss,
                                       const autograd::BackwardOptions& options) {
  reducer_->backward_in(context, [&] { autograd::backward(context, {loss}, options); });
}

void DistributedDataParallel::backward_from(const autograd::Context& context, const rpc::RRef<Tensor>& loss,
                                            const autograd::BackwardOptions& options) {
  reducer_->backward_in(context, [&] { autograd::backward(context, loss, options); });
}

void DistributedDataParallel::broadcast_buffers() {
  const NoGrad no_grad;
  for (const Tensor& buffer : module_.buffers()) group_.broadcast(buffer, 0, options_.collectives);
}

}  // namespace tendril::dist
