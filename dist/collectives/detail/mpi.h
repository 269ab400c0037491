#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tendril/dist/collectives/detail/carrier.h"

namespace tendril::dist::detail {

/// Runs a group's collectives on CPU tensors with Open MPI, whose library is loaded at run time. MPI works in the
/// background; the calling thread polls until the operation is complete, its deadline passes or the channel fails. The
/// tensors of an incomplete operation are never freed, because MPI may still use them.
class MpiGroup final : public CollectiveBackend {
 public:
  /// Collective over the members of the channel. Throws CollectiveError that names a member that cannot use MPI or
  /// belongs to another mpirun job, and errors of the channel.
  static std::unique_ptr<CollectiveBackend> make(Channel& channel, rpc::Clock::time_point deadline);

  const char* name() const noexcept override { return "MPI"; }
  bool moves(const Tensor&) const noexcept override { return true; }
  bool reduces(const Tensor& x) const noexcept override;  ///< false for half-precision dtypes and bool, which MPI lacks
  Tensor flat(const Tensor& x) const override;
  void all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) override;  ///< averages are divided at the end
  void broadcast(Channel& channel, const Tensor& flat, int root) override;
  void all_gather(Channel& channel, const Tensor& flat) override;
  void reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) override;

 private:
  struct Library;
  using Comm = void*;
  using Request = void*;
  /// Starts an operation with `begin(request)` and waits for it. MPI uses the `kept` tensors meanwhile.
  void wait(Channel& channel, std::initializer_list<Tensor> kept, const std::function<int(Request*)>& begin);

  MpiGroup(const Library& library, Comm comm) : library_(library), comm_(comm) {}

  const Library& library_;
  const Comm comm_;
};

}  // namespace tendril::dist::detail
