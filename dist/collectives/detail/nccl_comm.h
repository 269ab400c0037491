#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/tensor/dtype.h"

namespace tendril::dist::detail {

/// NCCL's constants, as in nccl.h since 2.14. The tests compare them with nccl.h if it is installed.
namespace nccl {
struct Id {  // ncclUniqueId, which is passed by value
  char bytes[128];
};
struct Config {  // ncclConfig_t of 2.14; later versions fill in the fields that they added
  std::size_t size = 24;
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
};
constexpr int kSuccess = 0, kInProgress = 7;
int type_of(DType dtype);  ///< -1 if NCCL has no such type
int op_of(ReduceOp op) noexcept;
}  // namespace nccl

/// A communicator of NCCL. The library is loaded at run time; neither it nor its header is needed to build. Waiting
/// calls `look` repeatedly. If `look` throws, the communicator is aborted together with its running operation, and
/// further calls throw CollectiveError. Only one thread at a time may use it.
class NcclComm {
 public:
  using Look = std::function<void()>;
  using Done = std::function<bool()>;  ///< whether the stream has completed the work that NCCL enqueued

  /// Loads `libnccl.so.2`, or the library that the environment variable TENDRIL_NCCL_LIBRARY names. Throws
  /// CollectiveError if it cannot be loaded or is older than 2.14.
  static void load();
  /// Returns a new id. One member calls this and sends the id to all others. Throws CollectiveError.
  static nccl::Id new_id();

  /// All members construct one, on the thread's current device. Returns when all have done so.
  NcclComm(const nccl::Id& id, int rank, int size, const Look& look);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// The operations work in place on device memory, on `stream` (a cudaStream_t), and return when `done` returns true.
  /// Reduces `count` elements.
  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op, void* stream, const Done& done,
                  const Look& look);
  void broadcast(void* data, std::size_t bytes, int root, void* stream, const Done& done, const Look& look);
  /// Each member provides segment `rank` of `data`.
  void all_gather(void* data, std::size_t bytes_each, int rank, void* stream, const Done& done, const Look& look);
  /// Stores the result in segment `rank` of `data`; a segment has `each` elements.
  void reduce_scatter(void* data, std::size_t each, int rank, DType dtype, ReduceOp op, void* stream, const Done& done,
                      const Look& look);

 private:
  struct Library;
  void run(const char* what, const std::function<int()>& begin, const Done& done, const Look& look);
  void finish(int code, const char* what, const Done& done, const Look& look);
  void abort() noexcept;

  const Library& library_;
  void* comm_ = nullptr;  // null after `abort`
};

}  // namespace tendril::dist::detail
