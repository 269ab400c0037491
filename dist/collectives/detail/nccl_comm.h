#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/tensor/dtype.h"

namespace tendril::dist::detail {

/// NCCL's constants, as its nccl.h has had them since 2.14; the tests compare them with one where there is one.
namespace nccl {
struct Id {  // ncclUniqueId: travels by value
  char bytes[128];
};
struct Config {  // ncclConfig_t of 2.14: what later versions add they fill in themselves
  std::size_t size = 24;
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
};
constexpr int kSuccess = 0, kInProgress = 7;
int type_of(DType dtype);  ///< -1: it has none
int op_of(ReduceOp op) noexcept;
}  // namespace nccl

/// A communicator of NCCL, whose library is loaded at run time: neither its header nor its library is needed to build.
/// Not blocking: whoever waits calls `look` again and again, and what that throws ends the communicator, upon which
/// what it had begun ends too, and further calls throw CollectiveError. One thread at a time.
class NcclComm {
 public:
  using Look = std::function<void()>;
  using Done = std::function<bool()>;  ///< whether the stream has done what NCCL has put into it

  /// Loads `libnccl.so.2`, or what the environment variable TENDRIL_NCCL_LIBRARY names. Throws CollectiveError if it is
  /// not there, or older than 2.14.
  static void load();
  /// For one member, which gives it to all others. Throws CollectiveError.
  static nccl::Id new_id();

  /// All members', on the thread's device. Returns when all have made theirs.
  NcclComm(const nccl::Id& id, int rank, int size, const Look& look);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Of `count` elements of the device, in place but for the last, on the stream (cudaStream_t). Each returns when
  /// `done` says so.
  void all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op, void* stream, const Done& done,
                  const Look& look);
  void broadcast(void* data, std::size_t bytes, int root, void* stream, const Done& done, const Look& look);
  /// Each member's bytes are segment `rank` of data.
  void all_gather(void* data, std::size_t bytes_each, int rank, void* stream, const Done& done, const Look& look);
  /// The sum is in segment `rank` of data, of `each` elements.
  void reduce_scatter(void* data, std::size_t each, int rank, DType dtype, ReduceOp op, void* stream, const Done& done,
                      const Look& look);

 private:
  struct Library;
  void run(const char* what, const std::function<int()>& begin, const Done& done, const Look& look);
  void finish(int code, const char* what, const Done& done, const Look& look);
  void abort() noexcept;

  const Library& library_;
  void* comm_ = nullptr;  // null: ended
};

}  // namespace tendril::dist::detail
