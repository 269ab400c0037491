// Stands in for NCCL on a machine without GPUs: the functions that dist/collectives loads, for members that are threads
// of one process, as a library whose communicators do not block. It is strict: what NCCL leaves undefined it refuses.
#include "tests/fake_nccl/fake_nccl.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#ifdef FAKE_NCCL_REAL_HEADER
#include <nccl.h>  // its declarations check the definitions here
#include <cstddef>
static_assert(sizeof(ncclUniqueId) == 128 && offsetof(ncclConfig_t, blocking) == 16);
static_assert(ncclSum == 0 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclUint8 == 1 && ncclInt32 == 2 && ncclInt64 == 4 && ncclFloat16 == 6 && ncclFloat32 == 7 &&
              ncclFloat64 == 8 && ncclBfloat16 == 9);
static_assert(ncclSuccess == 0 && ncclInProgress == 7);
#else  // what this file uses of it
extern "C" {
typedef struct ncclComm* ncclComm_t;
typedef struct CUstream_st* cudaStream_t;
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef enum {
  ncclSuccess = 0,
  ncclSystemError = 2,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclSum = 0, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;
typedef enum {
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt64 = 4,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
} ncclDataType_t;
typedef struct {
  size_t size;
  unsigned int magic, version;
  int blocking;
} ncclConfig_t;
}
#endif

namespace {

void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

int first_device() { return 0; }

FakeNccl settings{{&copy}, {&copy}, {&first_device}, {21400}, {false}, {false}, {0}, {0}};

enum class Kind { all_reduce, broadcast, all_gather, reduce_scatter };

/// One operation of all members.
struct Operation {
  Kind kind{};
  std::size_t count = 0;
  ncclDataType_t type{};
  int detail = 0;                          // the root or the ncclRedOp_t
  std::vector<std::vector<char>> in, out;  // by rank
  int there = 0;
};

struct World {
  int size = 0, joined = 0;
  bool wrong = false;
  std::vector<std::shared_ptr<Operation>> operations;
};

std::mutex mutex;
std::map<std::string, std::shared_ptr<World>> worlds;  // by id

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

template <class T>
std::vector<char> reduced(const std::vector<std::vector<char>>& in, int op) {
  std::vector<T> sum(in[0].size() / sizeof(T));
  for (std::size_t rank = 0; rank < in.size(); ++rank) {
    std::vector<T> part(sum.size());
    if (!part.empty()) std::memcpy(part.data(), in[rank].data(), in[rank].size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (rank == 0)
        sum[i] = part[i];
      else
        sum[i] = op == ncclMax   ? std::max(sum[i], part[i])
                 : op == ncclMin ? std::min(sum[i], part[i])
                                 : static_cast<T>(sum[i] + part[i]);
    }
  }
  if (op == ncclAvg) {
    for (T& one : sum) one = static_cast<T>(one / static_cast<T>(in.size()));
  }
  std::vector<char> bytes(in[0].size());
  if (!bytes.empty()) std::memcpy(bytes.data(), sum.data(), bytes.size());
  return bytes;
}

std::vector<char> reduced(const Operation& one) {
  switch (one.type) {
    case ncclUint8:
      return reduced<uint8_t>(one.in, one.detail);
    case ncclInt32:
      return reduced<int32_t>(one.in, one.detail);
    case ncclInt64:
      return reduced<int64_t>(one.in, one.detail);
    case ncclFloat32:
      return reduced<float>(one.in, one.detail);
    default:
      return reduced<double>(one.in, one.detail);
  }
}

void complete(Operation& one) {
  const std::size_t size = one.in.size();
  std::vector<char> all;
  if (one.kind == Kind::broadcast) {
    all = one.in[static_cast<std::size_t>(one.detail)];
  } else if (one.kind == Kind::all_gather) {
    for (const auto& part : one.in) all.insert(all.end(), part.begin(), part.end());
  } else {
    all = reduced(one);
  }
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto each = static_cast<std::ptrdiff_t>(all.size() / size), at = static_cast<std::ptrdiff_t>(rank) * each;
    one.out.push_back(one.kind == Kind::reduce_scatter ? std::vector<char>(all.begin() + at, all.begin() + at + each)
                                                       : all);
  }
}

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  std::size_t rank = 0, next = 0;
  int device = 0;
  std::shared_ptr<Operation> running;
  void* to = nullptr;  // of the running one
};

namespace {

ncclResult_t begin(ncclComm_t comm, Kind kind, const void* from, void* to, std::size_t read, std::size_t count,
                   ncclDataType_t type, int detail) {
  if (settings.refusing) return ncclInvalidUsage;
  if (!comm || !from || !to || bytes_of(type) == 0) return ncclInvalidArgument;
  if (settings.current_device.load()() != comm->device) return ncclInvalidUsage;
  std::vector<char> mine(read * bytes_of(type));
  settings.read.load()(mine.data(), from, mine.size());
  const std::lock_guard lock(mutex);
  World& world = *comm->world;
  if (comm->running || world.joined < world.size) return ncclInvalidUsage;
  if (comm->next == world.operations.size()) {
    auto first = std::make_shared<Operation>();
    *first = {kind, count, type, detail, std::vector<std::vector<char>>(static_cast<std::size_t>(world.size)), {}, 0};
    world.operations.push_back(first);
  }
  Operation& one = *world.operations[comm->next++];
  if (one.kind != kind || one.count != count || one.type != type || one.detail != detail) {
    world.wrong = true;
    return ncclInvalidUsage;
  }
  one.in[comm->rank] = std::move(mine);
  comm->running = world.operations[comm->next - 1];
  comm->to = to;
  if (++one.there == world.size) complete(one);
  return ncclInProgress;
}

}  // namespace

extern "C" {

FakeNccl* fake_nccl() { return &settings; }

ncclResult_t ncclGetVersion(int* version) {
  *version = settings.version;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError    ? "unhandled system error"
         : result == ncclInvalidUsage ? "invalid usage"
                                      : "another";
}
const char* ncclGetLastError(ncclComm_t) { return settings.broken ? "the cable is out" : ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> last{0};
  const std::string text = "world " + std::to_string(++last);
  std::memset(id->internal, 0x5a, sizeof id->internal);  // all of it has to arrive
  std::memcpy(id->internal, text.c_str(), text.size() + 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || config->version < 21400 || config->blocking != 0) return ncclInvalidArgument;
  if (rank < 0 || rank >= nranks || id.internal[sizeof id.internal - 1] != 0x5a) return ncclInvalidArgument;
  const std::lock_guard lock(mutex);
  auto& world = worlds[id.internal];
  if (!world) world = std::make_shared<World>();
  if (world->size != 0 && world->size != nranks) return ncclInvalidArgument;
  world->size = nranks;
  ++world->joined;
  ++settings.made;
  *comm = new ncclComm{world, static_cast<std::size_t>(rank), 0, settings.current_device.load()(), nullptr, nullptr};
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  ++settings.ended;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  std::unique_lock lock(mutex);
  *state = ncclSuccess;
  if (comm->world->joined < comm->world->size) *state = ncclInProgress;
  if (comm->world->wrong) *state = ncclInvalidUsage;
  if (!comm->running) return ncclSuccess;
  if (settings.broken) {
    *state = ncclSystemError;
    return ncclSuccess;
  }
  if (comm->running->out.empty()) {
    *state = ncclInProgress;
    return ncclSuccess;
  }
  const auto ended = std::move(comm->running);
  comm->running = nullptr;
  lock.unlock();
  const std::vector<char>& mine = ended->out[comm->rank];
  settings.write.load()(comm->to, mine.data(), mine.size());
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) {
  return begin(comm, Kind::all_reduce, sendbuff, recvbuff, count, count, datatype, op);
}
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t) {
  return begin(comm, Kind::broadcast, sendbuff, recvbuff, count, count, datatype, root);
}
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t) {
  return begin(comm, Kind::all_gather, sendbuff, recvbuff, sendcount, sendcount, datatype, 0);
}
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  const auto size = static_cast<std::size_t>(comm->world->size);
  return begin(comm, Kind::reduce_scatter, sendbuff, recvbuff, recvcount * size, recvcount, datatype, op);
}
}
