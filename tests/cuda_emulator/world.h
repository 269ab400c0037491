#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>
#include <vector>

#include "cuda_emulator/bind.h"
#include "cuda_emulator/emulator.h"

/// What the runtime's functions share: streams of deferred work, and the one lock under which it runs.

namespace cuda_emulator {

/// A piece of queued work, done when its stream has done `ticket` pieces.
struct Ticket {
  CUstream_st* stream;
  std::uint64_t number;
};

/// Runs in the order of its stream, after what is named in `after`.
struct Work {
  std::function<void()> run;
  std::vector<Ticket> after;
  bool touches_memory = true;
};

/// What cudaEventRecord leaves behind. Complete when the ticket's work is.
struct Record {
  Ticket ticket;
  std::chrono::steady_clock::time_point when;
};

}  // namespace cuda_emulator

/// A piece of captured work.
struct CUgraphNode_st {
  std::size_t place;             ///< in the graph
  const void* kernel = nullptr;  ///< null for other work
  cuda_emulator::detail::Bind bind{};
};

/// What was captured, in its order: a stream's alone.
struct CUgraph_st {
  std::vector<cuda_emulator::Work> work;
  std::deque<CUgraphNode_st> nodes;  ///< of each
  CUgraphNode_st* last = nullptr;
  bool broken = false;  ///< something was asked of its stream that cannot be captured
};
struct CUgraphExec_st {
  int device;
  std::vector<cuda_emulator::Work> work;
};

/// What is behind a stream's handle, forever; the handle is the runtime's to give to another (World::handles).
struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  bool legacy;  ///< the device's default stream: in order with all that are not cudaStreamNonBlocking
  std::unique_ptr<CUgraph_st> recorded{};  ///< of a stream that is being captured: what it would have run
  std::uint64_t issued = 0, done = 0;
  std::deque<cuda_emulator::Work> queue;
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<cuda_emulator::Record> record;  ///< null before the first cudaEventRecord
};

namespace cuda_emulator {

struct World {
  World();

  std::mutex mutex;
  std::atomic<int> waiting{0};  ///< threads that want it
  int driver;                   ///< its CUDA version
  int devices;
  std::vector<CUstream_st*> legacy;  ///< by device
  std::vector<std::vector<std::unique_ptr<CUstream_st>>> streams;
  std::map<cudaStream_t, CUstream_st*> handles;  ///< what cudaStreamCreate gave out and was not destroyed
  std::vector<cudaStream_t> former_handles;      ///< destroyed ones: the next streams get them, the last one first
  std::unordered_set<CUevent_st*> events;
  bool refuses_memory = false;          ///< cudaMalloc finds none
  std::set<int> contexts;               ///< devices with one, which costs a real device half a gigabyte
  std::set<std::pair<int, int>> peers;  ///< (device, whose memory it may touch)
  Counters counters;
};

World& world();

/// Every runtime function holds one. Device memory is closed again when it ends.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

/// The calling thread's device.
int& current_device();
/// Whether `stream` is captured, which is then broken: for what cannot be.
bool breaks_capture(CUstream_st* stream);
/// Notes the error for cudaGetLastError and gives it back.
cudaError_t note(cudaError_t error);
/// cudaErrorNoDevice where there is none, cudaErrorInsufficientDriver for want of a driver.
cudaError_t need_device();
/// The same, for functions that make the current device's context if it has none: most that do anything.
cudaError_t need_context();

/// The stream behind a handle (null and cudaStreamLegacy: of the thread's device), or null for what is no stream.
CUstream_st* find_stream(cudaStream_t handle);
/// Queues `work`, in order with the legacy default stream as CUDA has it. May run some of what is queued already: a
/// device's queue is not endless either.
Ticket push(Lock& lock, CUstream_st& stream, Work work);
/// Runs what it takes until the ticket's work is done.
void drive(Lock& lock, Ticket ticket);
/// Asks once, as a poll does: true when done; else goes a part of the way.
bool poll(Lock& lock, Ticket ticket);
/// Everything that was issued to the device so far.
void drive_device(Lock& lock, int device);

}  // namespace cuda_emulator
