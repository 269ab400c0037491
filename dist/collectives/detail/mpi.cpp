// Uses Open MPI's binary interface, unchanged since version 1.7, whose handles are the addresses of objects that the
// library exports. So neither its headers nor its library are needed to build.
#include "tendril/dist/collectives/detail/mpi.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tendril/dist/collectives/detail/operation.h"
#include "tendril/dist/collectives/detail/ring.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist::detail {

namespace {

// From Open MPI's mpi.h.
constexpr int kSuccess = 0, kThreadMultiple = 3, kMaxErrorString = 256;
void* const kInPlace = reinterpret_cast<void*>(1);
void* const kIgnoreStatus = nullptr;
using Handle = void*;

/// Whether an operation was abandoned. MPI_Finalize would wait for that operation, so `finalize` does not call it, and
/// mpirun ends the other processes.
std::atomic<bool> operation_abandoned{false};
int (*finalize_mpi)() = nullptr;

void finalize() {
  if (!operation_abandoned) finalize_mpi();
}

}  // namespace

struct MpiGroup::Library {
  int (*initialized)(int*), (*finalized)(int*), (*finalize)();
  int (*init_thread)(int*, char***, int, int*), (*query_thread)(int*);
  int (*error_string)(int, char*, int*);
  int (*comm_rank)(Handle, int*), (*comm_size)(Handle, int*), (*comm_group)(Handle, Handle*);
  int (*group_incl)(Handle, int, const int*, Handle*), (*group_free)(Handle*);
  int (*comm_create_group)(Handle, Handle, int, Handle*), (*comm_set_errhandler)(Handle, Handle);
  int (*iallreduce)(const void*, void*, int, Handle, Handle, Handle, Handle*);
  int (*ibcast)(void*, int, Handle, int, Handle, Handle*);
  int (*iallgather)(const void*, int, Handle, void*, int, Handle, Handle, Handle*);
  int (*ireduce_scatter_block)(const void*, void*, int, Handle, Handle, Handle, Handle*);
  int (*test)(Handle*, int*, void*);
  Handle world, errors_return;
  Handle float32, float64, uint8, int32, int64, byte;
  Handle sum, max, min;

  void check(int code, const char* what) const {
    if (code == kSuccess) return;
    char text[kMaxErrorString + 1] = "";
    int length = 0;
    error_string(code, text, &length);
    throw CollectiveError(std::string(what) + ": " + text);
  }
  Handle type_of(DType dtype) const {
    switch (dtype) {
      case kFloat32:
        return float32;
      case kFloat64:
        return float64;
      case kUInt8:
        return uint8;
      case kInt32:
        return int32;
      case kInt64:
        return int64;
      default:
        return nullptr;
    }
  }
  Handle op_of(ReduceOp op) const { return op == ReduceOp::max ? max : op == ReduceOp::min ? min : sum; }

  static Library load();
  static const Library& get();  ///< throws CollectiveError; tries again after a failure
  void start() const;
};

MpiGroup::Library MpiGroup::Library::load() {
  // RTLD_GLOBAL: Open MPI's plugins look up its symbols among those of the process.
  void* object = nullptr;
  std::string tried;
  for (const char* name : {"libmpi.so.40", "libmpi.so"}) {
    object = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (object) break;
    const char* const error = ::dlerror();
    tried += std::string(tried.empty() ? "" : "; ") + (error ? error : name);
  }
  if (!object) throw CollectiveError("cannot load Open MPI's library: " + tried);
  const auto find = [&](const char* name) {
    void* const found = ::dlsym(object, name);
    if (!found) throw CollectiveError(std::string("the MPI library has no ") + name + ": it is not Open MPI");
    return found;
  };
  Library library{};
  const auto function = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(find(name));
  };
  library.world = find("ompi_mpi_comm_world");
  library.errors_return = find("ompi_mpi_errors_return");
  library.float32 = find("ompi_mpi_float");
  library.float64 = find("ompi_mpi_double");
  library.uint8 = find("ompi_mpi_uint8_t");
  library.int32 = find("ompi_mpi_int32_t");
  library.int64 = find("ompi_mpi_int64_t");
  library.byte = find("ompi_mpi_byte");
  library.sum = find("ompi_mpi_op_sum");
  library.max = find("ompi_mpi_op_max");
  library.min = find("ompi_mpi_op_min");
  function(library.initialized, "MPI_Initialized");
  function(library.finalized, "MPI_Finalized");
  function(library.finalize, "MPI_Finalize");
  function(library.init_thread, "MPI_Init_thread");
  function(library.query_thread, "MPI_Query_thread");
  function(library.error_string, "MPI_Error_string");
  function(library.comm_rank, "MPI_Comm_rank");
  function(library.comm_size, "MPI_Comm_size");
  function(library.comm_group, "MPI_Comm_group");
  function(library.group_incl, "MPI_Group_incl");
  function(library.group_free, "MPI_Group_free");
  function(library.comm_create_group, "MPI_Comm_create_group");
  function(library.comm_set_errhandler, "MPI_Comm_set_errhandler");
  function(library.iallreduce, "MPI_Iallreduce");
  function(library.ibcast, "MPI_Ibcast");
  function(library.iallgather, "MPI_Iallgather");
  function(library.ireduce_scatter_block, "MPI_Ireduce_scatter_block");
  function(library.test, "MPI_Test");
  return library;
}

/// Initialises MPI, which is then finalised at exit, unless the program has done so itself.
void MpiGroup::Library::start() const {
  int there = 0, provided = 0;
  finalized(&there);
  if (there) throw CollectiveError("MPI has been finalised in this process");
  initialized(&there);
  if (there) {
    query_thread(&provided);
  } else {
    if (init_thread(nullptr, nullptr, kThreadMultiple, &provided) != kSuccess)
      throw CollectiveError("MPI_Init_thread has failed");
    finalize_mpi = finalize;
    std::atexit(&detail::finalize);
  }
  if (provided < kThreadMultiple) throw CollectiveError("this MPI library does not support MPI_THREAD_MULTIPLE");
  check(comm_set_errhandler(world, errors_return), "MPI_Comm_set_errhandler");
}

const MpiGroup::Library& MpiGroup::Library::get() {
  // Without a launcher, MPI_Init would make a world of this process only, and start a daemon for it.
  if (!std::getenv("OMPI_COMM_WORLD_SIZE"))
    throw CollectiveError("this process was not started by Open MPI's mpirun (OMPI_COMM_WORLD_SIZE is not set)");
  static rpc::detail::Mutex mutex;
  const std::lock_guard lock(mutex);
  static const Library* started = nullptr;
  if (started) return *started;
  static const Library library = load();
  library.start();
  return *(started = &library);
}

namespace {

/// FNV-1a of the job's name, because ranks of another job belong to a different MPI world.
int64_t hash_of_job() {
  uint64_t hash = 14695981039346656037u;
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    const char* const job = std::getenv(name);
    for (const char* c = job ? job : ""; *c; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 1099511628211u;
  }
  return static_cast<int64_t>(hash >> 1);
}

}  // namespace

std::unique_ptr<CollectiveBackend> MpiGroup::make(Channel& channel, rpc::Clock::time_point deadline) {
  constexpr int64_t kFields = 2;  // per member: its rank in MPI's world, or -1, and its job
  const Library* library = nullptr;
  std::string problem;
  int rank = -1;
  try {
    library = &rpc::blocking([]() -> const Library& { return Library::get(); });
    library->check(library->comm_rank(library->world, &rank), "MPI_Comm_rank");
  } catch (const CollectiveError& error) {
    problem = error.what();
    rank = -1;
  }
  const int size = channel.size();
  const Tensor all = raw::zeros({kFields * size}, kInt64);
  Handle comm = nullptr;
  in_operation(channel, "ProcessGroup by MPI", deadline, [&] {
    auto* const fields = all.mutable_data<int64_t>();
    fields[kFields * channel.rank()] = rank;
    fields[kFields * channel.rank() + 1] = hash_of_job();
    if (size > 1) ring_all_gather(channel, all, kFields);
    if (!problem.empty()) throw CollectiveError("ProcessGroup: backend MPI: " + problem);
    std::vector<int> ranks;
    for (int i = 0; i < size; ++i) {
      const std::string& name = channel.members()[static_cast<std::size_t>(i)].name;
      const int64_t theirs = fields[kFields * i];
      if (theirs < 0) throw CollectiveError("ProcessGroup: backend MPI: worker '" + name + "' cannot use MPI");
      if (fields[kFields * i + 1] != hash_of_job())
        throw CollectiveError("ProcessGroup: backend MPI: worker '" + name + "' belongs to another mpirun job");
      ranks.push_back(static_cast<int>(theirs));
    }
    // All members are here, so these calls wait for no other process.
    rpc::blocking([&] {
      Handle world = nullptr, group = nullptr;
      library->check(library->comm_group(library->world, &world), "MPI_Comm_group");
      library->check(library->group_incl(world, size, ranks.data(), &group), "MPI_Group_incl");
      library->check(library->comm_create_group(library->world, group, static_cast<int>(channel.key() & 0x7fff), &comm),
                     "MPI_Comm_create_group");
      library->check(library->comm_set_errhandler(comm, library->errors_return), "MPI_Comm_set_errhandler");
      library->group_free(&group);
      library->group_free(&world);
    });
  });
  return std::unique_ptr<CollectiveBackend>(new MpiGroup(*library, comm));
}

Tensor MpiGroup::flat(const Tensor& x) const { return flat_on_cpu(x); }

bool MpiGroup::reduces(const Tensor& x) const noexcept {
  const DType dtype = x.dtype();
  return dtype == kFloat32 || dtype == kFloat64 || dtype == kUInt8 || dtype == kInt32 || dtype == kInt64;
}

// ---- operations

void MpiGroup::wait(Channel& channel, std::initializer_list<Tensor> kept, const std::function<int(Request*)>& begin) {
  struct Running {
    std::vector<Tensor> tensors;
    Request request = nullptr;
  };
  auto running = std::make_unique<Running>();
  running->tensors = kept;
  library_.check(begin(&running->request), "MPI");
  const auto done = [&] {
    int flag = 0;
    library_.check(library_.test(&running->request, &flag, kIgnoreStatus), "MPI_Test");
    return flag != 0;
  };
  try {
    rpc::blocking([&] {
      using namespace std::chrono_literals;
      for (int looks = 0; !done(); ++looks) {
        channel.check_time();
        if (looks < 64)
          std::this_thread::yield();
        else
          rpc::sleep_for(looks < 1024 ? 20us : 200us);
      }
    });
  } catch (...) {
    // MPI cannot cancel a collective: it may still write to these tensors at any time.
    static rpc::detail::Mutex mutex;
    static auto* const abandoned = new std::vector<std::unique_ptr<Running>>();
    operation_abandoned = true;
    const std::lock_guard lock(mutex);
    abandoned->push_back(std::move(running));
    throw;
  }
}

namespace {

constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;  // elements per call; MPI counts in ints

void divide(const Tensor& sum, ReduceOp op, int size) {
  if (op == ReduceOp::average) raw::binary_(Binary::div, sum, Scalar(size));
}

int count_of(int64_t units) {
  TENDRIL_CHECK_AS(CollectiveError, units <= kMost, "MPI: a part of ", units, " units is too large for its int counts");
  return static_cast<int>(units);
}

}  // namespace

void MpiGroup::all_reduce(Channel& channel, const Tensor& flat, ReduceOp op) {
  agree(channel);
  for (int64_t at = 0; at < flat.numel(); at += kMost) {
    const Tensor part = raw::narrow(flat, 0, at, std::min(kMost, flat.numel() - at));
    wait(channel, {part}, [&](Request* request) {
      return library_.iallreduce(kInPlace, part.raw_data(), static_cast<int>(part.numel()),
                                 library_.type_of(part.dtype()), library_.op_of(op), comm_, request);
    });
  }
  divide(flat, op, channel.size());
}

void MpiGroup::broadcast(Channel& channel, const Tensor& flat, int root) {
  agree(channel);
  const int64_t most = kMost / static_cast<int64_t>(size_of(flat.dtype()));
  for (int64_t at = 0; at < flat.numel(); at += most) {
    const Tensor part = raw::narrow(flat, 0, at, std::min(most, flat.numel() - at));
    wait(channel, {part}, [&](Request* request) {
      return library_.ibcast(part.raw_data(),
                             static_cast<int>(part.numel() * static_cast<int64_t>(size_of(part.dtype()))),
                             library_.byte, root, comm_, request);
    });
  }
}

void MpiGroup::all_gather(Channel& channel, const Tensor& flat) {
  agree(channel);
  const int bytes = count_of(flat.numel() / channel.size() * static_cast<int64_t>(size_of(flat.dtype())));
  wait(channel, {flat}, [&](Request* request) {
    return library_.iallgather(kInPlace, bytes, library_.byte, flat.raw_data(), bytes, library_.byte, comm_, request);
  });
}

void MpiGroup::reduce_scatter(Channel& channel, const Tensor& flat, ReduceOp op) {
  agree(channel);
  const int each = count_of(flat.numel() / channel.size());
  const Tensor sum = raw::empty({each}, flat.dtype());
  wait(channel, {flat, sum}, [&](Request* request) {
    return library_.ireduce_scatter_block(flat.raw_data(), sum.raw_data(), each, library_.type_of(flat.dtype()),
                                          library_.op_of(op), comm_, request);
  });
  divide(sum, op, channel.size());
  raw::copy_(raw::narrow(flat, 0, int64_t{each} * channel.rank(), each), sum);
}

}  // namespace tendril::dist::detail
