#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <vector>

#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::dist {

/// Trains copies of one module, one at each member of a process group, on different parts of a batch:
///
///     dist::ProcessGroup group(workers);
///     dist::DistributedDataParallel ddp(model, group);   // all start from the first member's parameters
///     optim::SGD sgd(model.parameters(), {.lr = 0.1});
///     for (...) {
///       sgd.zero_grad();
///       ddp.backward(cross_entropy(model(x), y));        // .grad: the average over the members
///       sgd.step();                                      // the same everywhere
///     }
///
/// `backward` runs the graph as `loss.backward()` does. Parameters are assigned to buckets, those used last first. As
/// soon as all gradients of a bucket are available, they are averaged over the members while the backward continues. If
/// the members' parts have the same size and the loss is a mean, the gradients are those of one process on the whole
/// batch. A plain `loss.backward()` adds to `.grad` on this worker only (PyTorch's no_sync); the next `ddp.backward`
/// averages the sums.
///
/// If other workers own parts of the model, each member computes in a separate autograd context:
///
///     ddp.backward(context, loss);                       // get_gradients(context): the averages
///
/// This runs dist::autograd::backward. Afterwards, the context holds the averages for the module's parameters, and
/// `.grad` is unchanged. Gradients of other parameters, here or on other workers, are not averaged.
///
/// Thread-safety: only the thread that calls the group's collectives may use it. All members must make the same calls.
class DistributedDataParallel {
 public:
  /// Options of the exchange of gradients.
  struct Options {
    std::size_t bucket_bytes = std::size_t{25} << 20;  ///< approximate size of one averaging operation
    /// Whether a backward may give no gradient to a parameter that requires one. False: that is an Error on all
    /// members, which names the parameter. True: the parameter is left unchanged if no member used it; otherwise
    /// members that did not use it contribute a zero gradient. True costs a small all_reduce per backward.
    bool find_unused_parameters = false;
    CollectiveOptions collectives = {};  ///< for each operation
  };

  /// Collective. Refers to module and group, which must outlive it. Frozen parameters are left out until they require
  /// gradients, which must happen before the same backward on all members. Throws CollectiveError if the members'
  /// modules differ in the names, shapes or dtypes of parameters and buffers, or in which parameters are frozen.
  DistributedDataParallel(nn::Module& module, ProcessGroup& group)
      : DistributedDataParallel(module, group, Options{}) {}
  DistributedDataParallel(nn::Module& module, ProcessGroup& group, const Options& options);
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Collective. `loss` must have one element. Throws errors of backward and all_reduce; the group has then failed. The
  /// `.grad` of parameters is the average only after it has returned.
  void backward(const Tensor& loss);
  /// Collective; each member uses a separate context. The graph may include calls to workers that are not members. The
  /// module's parameters get no gradients in the context before it returns; gradients that the context held for them
  /// are added before averaging. Throws errors of dist::autograd::backward and all_reduce. The group has then failed;
  /// the context keeps its earlier gradients of the module's parameters and may have received gradients of others.
  void backward(const autograd::Context& context, const Tensor& loss, const autograd::BackwardOptions& options = {});
  /// The same for a loss that another worker, or this one, owns.
  template <std::same_as<rpc::RRef<Tensor>> R>
  void backward(const autograd::Context& context, const R& loss, const autograd::BackwardOptions& options = {}) {
    backward_from(context, loss, options);
  }
  /// Collective. Replaces the buffers (running statistics) with those of the first member.
  void broadcast_buffers();

  /// The module given to the constructor.
  nn::Module& module() const noexcept { return module_; }
  /// Number of buckets of gradients.
  std::size_t num_buckets() const noexcept;

 private:
  class Reducer;
  void backward_from(const autograd::Context& context, const rpc::RRef<Tensor>& loss,
                     const autograd::BackwardOptions& options);

  nn::Module& module_;
  ProcessGroup& group_;
  const Options options_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tendril::dist

TENDRIL_API_END
