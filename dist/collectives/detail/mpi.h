#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/tensor/tensor.h"

namespace tendril::dist::detail {

/// A group's collectives by Open MPI, whose library is loaded at run time. Over flat, contiguous tensors of the CPU,
/// within an operation of the group's channel, by which members first see that they agree. MPI works in the
/// background; who waits looks again and again whether it is done, the time is over, or the channel has failed. What
/// MPI was given and has not given back by then stays allocated.
class MpiGroup {
 public:
  /// Collective over the members of the channel. Throws CollectiveError that names the member where MPI is not there or
  /// that belongs to another job, and what a channel throws.
  static std::unique_ptr<MpiGroup> make(Channel& channel, rpc::Clock::time_point deadline);

  /// Whether MPI has a type for it: not for half types and bool.
  static bool reduces(DType dtype) noexcept;
  void all_reduce(Channel& channel, const Tensor& flat, ReduceOp op);  ///< averages: divided in the end
  void broadcast(Channel& channel, const Tensor& flat, int root);
  /// Segment `rank` of `size` equal ones to all.
  void all_gather(Channel& channel, const Tensor& flat);
  /// The sum in segment `rank`; the others stay.
  void reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op);

 private:
  struct Library;
  using Comm = void*;
  using Request = void*;
  /// Starts what `begin(request)` asks for and waits for it; these tensors are MPI's meanwhile.
  void wait(Channel& channel, std::initializer_list<Tensor> kept, const std::function<int(Request*)>& begin);

  MpiGroup(const Library& library, Comm comm) : library_(library), comm_(comm) {}

  const Library& library_;
  const Comm comm_;
};

}  // namespace tendril::dist::detail
