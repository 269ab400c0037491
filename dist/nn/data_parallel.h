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
/// `backward` runs the graph as `loss.backward()` does. Parameters lie in buckets, those that are used last first; as
/// soon as all gradients of a bucket are there its average is taken over the members, while the backward goes on. Where
/// the members' parts have the same size and the loss is a mean, gradients are those of one process on the whole batch.
/// A plain `loss.backward()` adds to `.grad` on this worker alone (PyTorch's no_sync); the next `ddp.backward` averages
/// the sums.
///
/// Where the model is only in part here, each member computes in an autograd context of its own, and
///
///     ddp.backward(context, loss);                       // get_gradients(context): the averages
///
/// is dist::autograd::backward after which the context has the averages of the module's parameters, and `.grad` is left
/// alone. Gradients of other parameters, here or on other workers, are those of this member's context, not averaged.
///
/// Thread-safety: one thread at a time, the one that calls the group's collectives. All members do the same.
class DistributedDataParallel {
 public:
  /// Of the exchange of gradients.
  struct Options {
    std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients that are averaged in one operation, about
    /// What a parameter that requires a gradient and gets none in a backward is: an Error that names it, at all members
    /// (false), or left alone where no member used it, and a zero of those that did not where some did (true), which
    /// costs a small all_reduce a backward.
    bool find_unused_parameters = false;
    CollectiveOptions collectives = {};  ///< of each operation
  };

  /// Collective. Refers to module and group, which must outlive it. Parameters that are frozen are left out until
  /// they require gradients, at all members at the same backward. Throws CollectiveError if the members' modules differ
  /// in names, shapes or dtypes of parameters and buffers.
  DistributedDataParallel(nn::Module& module, ProcessGroup& group)
      : DistributedDataParallel(module, group, Options{}) {}
  DistributedDataParallel(nn::Module& module, ProcessGroup& group, const Options& options);
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Collective. `loss` has one element. Throws what backward and all_reduce throw; after that the group has failed.
  /// `.grad` of parameters is the average only once it has returned.
  void backward(const Tensor& loss);
  /// Collective, each member with a context of its own: through calls to workers that need not be members. The module's
  /// parameters get no gradient in the context before it returns; what the context held of them is averaged with them.
  /// Throws what dist::autograd::backward and all_reduce throw; after that the group has failed, and the context has
  /// what it held of the module's parameters and may have got gradients of others.
  void backward(const autograd::Context& context, const Tensor& loss, const autograd::BackwardOptions& options = {});
  /// ... from a loss that another worker, or this one, owns.
  template <std::same_as<rpc::RRef<Tensor>> R>
  void backward(const autograd::Context& context, const R& loss, const autograd::BackwardOptions& options = {}) {
    backward_from(context, loss, options);
  }
  /// Collective: buffers (running statistics) become the first member's.
  void broadcast_buffers();

  /// The module, as it was given.
  nn::Module& module() const noexcept { return module_; }
  /// In how many pieces gradients travel.
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
