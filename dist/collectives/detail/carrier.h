#pragma once

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/tensor/tensor.h"

namespace tendril::dist::detail {

/// A group's collectives by somebody else's library. Over flat, contiguous tensors that `flat` gives, within an
/// operation of the group's channel; each first sees that all members are in the same one (`agree`).
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// "MPI": members compare it.
  virtual const char* name() const noexcept = 0;
  /// Whether tensors such as x are its to move, and to bring together; others are the ring's.
  virtual bool moves(const Tensor& x) const noexcept = 0;
  virtual bool reduces(const Tensor& x) const noexcept = 0;
  /// x's elements in order, where it takes them from: x's own if they lie so.
  virtual Tensor flat(const Tensor& x) const = 0;

  virtual void all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) = 0;
  virtual void broadcast(Channel& channel, const Tensor& flat, int root) = 0;
  /// Segment `rank` of `size` equal ones to all.
  virtual void all_gather(Channel& channel, const Tensor& flat) = 0;
  /// The sum in segment `rank`; the others stay.
  virtual void reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) = 0;
};

/// x's elements in order on the CPU: x's own where they lie so.
Tensor flat_on_cpu(const Tensor& x);

/// Members see that they are in the same operation: each hears from the one before it.
void agree(Channel& channel);

}  // namespace tendril::dist::detail
