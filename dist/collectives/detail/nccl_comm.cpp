#include "tendril/dist/collectives/detail/nccl_comm.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"

namespace tendril::dist::detail {

int nccl::type_of(DType dtype) {
  switch (dtype) {
    case kUInt8:
      return 1;
    case kInt32:
      return 2;
    case kInt64:
      return 4;
    case kFloat16:
      return 6;
    case kFloat32:
      return 7;
    case kFloat64:
      return 8;
    case kBFloat16:
      return 9;
    default:
      return -1;
  }
}

int nccl::op_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::max:
      return 2;
    case ReduceOp::min:
      return 3;
    case ReduceOp::average:
      return 4;
    default:
      return 0;
  }
}

namespace {
constexpr int kBytes = 1;  // ncclUint8
constexpr int kOldest = 21400;
}  // namespace

struct NcclComm::Library {
  int (*get_version)(int*);
  int (*get_unique_id)(nccl::Id*);
  int (*comm_init_rank_config)(void**, int, nccl::Id, int, nccl::Config*);
  int (*comm_abort)(void*);
  int (*comm_get_async_error)(void*, int*);
  const char* (*get_error_string)(int);
  const char* (*get_last_error)(void*);
  int (*all_reduce)(const void*, void*, std::size_t, int, int, void*, void*);
  int (*broadcast)(const void*, void*, std::size_t, int, int, void*, void*);
  int (*all_gather)(const void*, void*, std::size_t, int, void*, void*);
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, void*, void*);

  [[noreturn]] void raise(int code, const char* what, void* comm) const {
    std::string text = std::string(what) + ": " + get_error_string(code);
    const char* const last = comm ? get_last_error(comm) : nullptr;
    if (last && *last) text += std::string(" (") + last + ")";
    throw CollectiveError(text);
  }

  static Library open(const std::string& name);
  static const Library& get();
};

NcclComm::Library NcclComm::Library::open(const std::string& name) {
  void* const object = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!object) {
    const char* const error = ::dlerror();
    throw CollectiveError("cannot load NCCL's library: " + (error ? std::string(error) : name));
  }
  Library library{};
  const auto function = [&](auto& pointer, const char* symbol) {
    void* const found = ::dlsym(object, symbol);
    if (!found) throw CollectiveError("NCCL's library " + name + " has no " + symbol + ": expected 2.14 or later");
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(found);
  };
  function(library.get_version, "ncclGetVersion");
  int version = 0;
  if (library.get_version(&version) != nccl::kSuccess || version < kOldest)
    throw CollectiveError("NCCL's library " + name + " is version " + std::to_string(version) + ", expected " +
                          std::to_string(kOldest) + " or later");
  function(library.get_unique_id, "ncclGetUniqueId");
  function(library.comm_init_rank_config, "ncclCommInitRankConfig");
  function(library.comm_abort, "ncclCommAbort");
  function(library.comm_get_async_error, "ncclCommGetAsyncError");
  function(library.get_error_string, "ncclGetErrorString");
  function(library.get_last_error, "ncclGetLastError");
  function(library.all_reduce, "ncclAllReduce");
  function(library.broadcast, "ncclBroadcast");
  function(library.all_gather, "ncclAllGather");
  function(library.reduce_scatter, "ncclReduceScatter");
  return library;
}

const NcclComm::Library& NcclComm::Library::get() {
  static rpc::detail::Mutex mutex;
  const std::lock_guard lock(mutex);
  static std::map<std::string, Library> libraries;  // those that were loaded; others are tried again
  const char* const given = std::getenv("TENDRIL_NCCL_LIBRARY");
  const std::string name = given && *given ? given : "libnccl.so.2";
  const auto found = libraries.find(name);
  return found != libraries.end() ? found->second : libraries.emplace(name, open(name)).first->second;
}

void NcclComm::load() { (void)Library::get(); }

nccl::Id NcclComm::new_id() {
  const Library& library = Library::get();
  nccl::Id id{};
  if (const int code = library.get_unique_id(&id); code != nccl::kSuccess)
    library.raise(code, "ncclGetUniqueId", nullptr);
  return id;
}

NcclComm::NcclComm(const nccl::Id& id, int rank, int size, const Look& look) : library_(Library::get()) {
  nccl::Config config;
  const int code = library_.comm_init_rank_config(&comm_, size, id, rank, &config);
  try {
    finish(
        code, "ncclCommInitRankConfig", [] { return true; }, look);
  } catch (...) {
    abort();
    throw;
  }
}

NcclComm::~NcclComm() { abort(); }

/// ncclCommAbort does not wait for other members, unlike ncclCommDestroy.
void NcclComm::abort() noexcept {
  if (comm_) (void)library_.comm_abort(comm_);
  comm_ = nullptr;
}

/// Waits until NCCL has enqueued the operation and the stream has completed it. Throws asynchronous errors, including
/// those of other members.
void NcclComm::finish(int code, const char* what, const Done& done, const Look& look) {
  using namespace std::chrono_literals;
  bool begun = false;
  for (int looks = 0;; ++looks) {
    if (code == nccl::kSuccess || code == nccl::kInProgress) {
      int state = nccl::kSuccess;
      if (const int asked = library_.comm_get_async_error(comm_, &state); asked != nccl::kSuccess) state = asked;
      code = state;
    }
    if (code != nccl::kSuccess && code != nccl::kInProgress) library_.raise(code, what, comm_);
    begun = begun || code == nccl::kSuccess;
    if (begun && done()) return;
    look();
    if (looks < 64)
      std::this_thread::yield();
    else
      rpc::sleep_for(looks < 1024 ? 20us : 200us);
  }
}

/// Aborts the communicator if the operation fails.
void NcclComm::run(const char* what, const std::function<int()>& begin, const Done& done, const Look& look) {
  if (!comm_) throw CollectiveError(std::string(what) + ": the NCCL communicator has ended");
  try {
    finish(begin(), what, done, look);
  } catch (...) {
    abort();
    throw;
  }
}

void NcclComm::all_reduce(void* data, std::size_t count, DType dtype, ReduceOp op, void* stream, const Done& done,
                          const Look& look) {
  const auto begin = [&] {
    return library_.all_reduce(data, data, count, nccl::type_of(dtype), nccl::op_of(op), comm_, stream);
  };
  run("ncclAllReduce", begin, done, look);
}

void NcclComm::broadcast(void* data, std::size_t bytes, int root, void* stream, const Done& done, const Look& look) {
  const auto begin = [&] { return library_.broadcast(data, data, bytes, kBytes, root, comm_, stream); };
  run("ncclBroadcast", begin, done, look);
}

void NcclComm::all_gather(void* data, std::size_t bytes_each, int rank, void* stream, const Done& done,
                          const Look& look) {
  const auto* const mine = static_cast<const char*>(data) + bytes_each * static_cast<std::size_t>(rank);
  const auto begin = [&] { return library_.all_gather(mine, data, bytes_each, kBytes, comm_, stream); };
  run("ncclAllGather", begin, done, look);
}

void NcclComm::reduce_scatter(void* data, std::size_t each, int rank, DType dtype, ReduceOp op, void* stream,
                              const Done& done, const Look& look) {
  auto* const mine = static_cast<char*>(data) + each * size_of(dtype) * static_cast<std::size_t>(rank);
  const auto begin = [&] {
    return library_.reduce_scatter(data, mine, each, nccl::type_of(dtype), nccl::op_of(op), comm_, stream);
  };
  run("ncclReduceScatter", begin, done, look);
}

}  // namespace tendril::dist::detail
