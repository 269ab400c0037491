#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/nn/module.h"
#include "tendril/tensor/tensor.h"

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

  /// Collective. Refers to module and group, which must outlive it. Parameters that are frozen now are left out.
  /// Throws CollectiveError if the members' modules differ in names, shapes or dtypes of parameters and buffers.
  DistributedDataParallel(nn::Module& module, ProcessGroup& group)
      : DistributedDataParallel(module, group, Options{}) {}
  DistributedDataParallel(nn::Module& module, ProcessGroup& group, const Options& options);
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// Collective. `loss` has one element. Throws what backward and all_reduce throw; after that the group has failed.
  /// `.grad` of parameters is the average only once it has returned.
  void backward(const Tensor& loss);
  /// Collective: buffers (running statistics) become the first member's.
  void broadcast_buffers();

  /// The module, as it was given.
  nn::Module& module() const noexcept { return module_; }
  /// In how many pieces gradients travel.
  std::size_t num_buckets() const noexcept;

 private:
  class Reducer;

  nn::Module& module_;
  ProcessGroup& group_;
  const Options options_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tendril::dist
