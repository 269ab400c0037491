#pragma once

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/tensor/tensor.h"

namespace tendril::dist::detail {

/// Runs a group's collectives with an external library. The operations take flat, contiguous tensors made by `flat`,
/// and run within an operation of the group's channel. Each first checks that all members are in the same one
/// (`agree`).
class CollectiveBackend {
 public:
  virtual ~CollectiveBackend() = default;
  /// The library's name, such as "MPI", for the texts that members compare.
  virtual const char* name() const noexcept = 0;
  /// Whether the library can move, or reduce, tensors like x. The built-in algorithms handle all others.
  virtual bool moves(const Tensor& x) const noexcept = 0;
  virtual bool reduces(const Tensor& x) const noexcept = 0;
  /// Returns x's elements in order, on the device that the library uses; shares x's storage if possible.
  virtual Tensor flat(const Tensor& x) const = 0;

  virtual void all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) = 0;
  virtual void broadcast(Channel& channel, const Tensor& flat, int root) = 0;
  /// Sends segment `rank` of `size` equal segments to all members.
  virtual void all_gather(Channel& channel, const Tensor& flat) = 0;
  /// Stores the result in segment `rank`; the other segments are unchanged.
  virtual void reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) = 0;
};

/// Returns x's elements in order, on the CPU; shares x's storage if possible.
Tensor flat_on_cpu(const Tensor& x);

/// Checks that all members are in the same operation: each receives a message from the previous rank.
void agree(Channel& channel);

}  // namespace tendril::dist::detail
