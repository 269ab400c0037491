#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tendril/dist/collectives/detail/carrier.h"

namespace tendril::dist::detail {

/// A group's collectives by Open MPI, whose library is loaded at run time. Over tensors of the CPU. MPI works in the
/// background; who waits looks again and again whether it is done, the time is over, or the channel has failed. What
/// MPI was given and has not given back by then stays allocated.
class MpiGroup final : public Carrier {
 public:
  /// Collective over the members of the channel. Throws CollectiveError that names the member where MPI is not there or
  /// that belongs to another job, and what a channel throws.
  static std::unique_ptr<Carrier> make(Channel& channel, rpc::Clock::time_point deadline);

  const char* name() const noexcept override { return "MPI"; }
  bool moves(const Tensor&) const noexcept override { return true; }
  bool reduces(const Tensor& x) const noexcept override;  ///< MPI has no types for halves and bool
  Tensor flat(const Tensor& x) const override;
  void all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) override;  ///< averages: divided in the end
  void broadcast(Channel& channel, const Tensor& flat, int root) override;
  void all_gather(Channel& channel, const Tensor& flat) override;
  void reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) override;

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
