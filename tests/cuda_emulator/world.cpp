#include "cuda_emulator/world.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "cuda_emulator/faults.h"
#include "cuda_emulator/memory.h"
#include "cuda_emulator/settings.h"

namespace cuda_emulator {
namespace {

/// As deep as a queue gets before its oldest work runs.
constexpr std::size_t kDepth = 1024;

bool is_sufficient(int driver) { return driver / 1000 >= CUDART_VERSION / 1000; }

int visible_devices(int driver) {
  if (!is_sufficient(driver)) return 0;
  const int present = static_cast<int>(from_environment("TENDRIL_EMULATED_DEVICES", 2));
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return present;
  // As the driver reads it: indices up to the first that is not one.
  int count = 0;
  for (std::string_view rest = visible; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    if (item.size() != 1 || item[0] < '0' || item[0] - '0' >= present) break;
    ++count;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return count;
}

}  // namespace

World::World()
    : driver(static_cast<int>(from_environment("TENDRIL_EMULATED_DRIVER", CUDART_VERSION))),
      devices(visible_devices(driver)),
      streams(static_cast<std::size_t>(devices)) {
  for (int device = 0; device < devices; ++device) {
    auto& of_device = streams[static_cast<std::size_t>(device)];
    of_device.push_back(std::make_unique<CUstream_st>(CUstream_st{device, cudaStreamDefault, 0, true}));
    legacy.push_back(of_device.back().get());
  }
  explain_faults();
}

World& world() {
  // Never destroyed: a library's last objects may still free their memory when the process ends.
  static World& it = *new World;
  return it;
}

Lock::Lock() : lock_(world().mutex, std::defer_lock) {
  if (Executing::now()) {
    std::fprintf(stderr, "cuda_emulator: queued work called the runtime\n");
    std::abort();
  }
  ++world().waiting;
  lock_.lock();
  --world().waiting;
}

Lock::~Lock() { close_memory(); }

cudaError_t need_context() {
  const cudaError_t error = need_device();
  if (error == cudaSuccess) world().contexts.insert(current_device());
  return error;
}

bool has_context(int device) {
  Lock lock;
  return world().contexts.count(device) != 0;
}

cudaError_t need_device() {
  if (world().devices > 0) return cudaSuccess;
  return is_sufficient(world().driver) ? cudaErrorNoDevice : cudaErrorInsufficientDriver;
}

bool breaks_capture(CUstream_st* stream) {
  if (stream->recorded) stream->recorded->broken = true;
  return stream->recorded != nullptr;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

CUstream_st* find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy)
    return world().legacy[static_cast<std::size_t>(current_device())];
  const auto found = world().handles.find(handle);
  return found == world().handles.end() ? nullptr : found->second;
}

Ticket push(Lock& lock, CUstream_st& stream, Work work) {
  if (stream.recorded) {
    CUgraph_st& graph = *stream.recorded;
    graph.last = &graph.nodes.emplace_back(CUgraphNode_st{graph.work.size()});
    graph.work.push_back(std::move(work));
    return {&stream, stream.issued};
  }
  const auto device = static_cast<std::size_t>(stream.device);
  const auto follow = [&](CUstream_st& other) {
    if (&other != &stream && other.done < other.issued) work.after.push_back({&other, other.issued});
  };
  if (stream.legacy) {
    for (const auto& other : world().streams[device]) {
      if (!(other->flags & cudaStreamNonBlocking)) follow(*other);
    }
  } else if (!(stream.flags & cudaStreamNonBlocking)) {
    follow(*world().legacy[device]);
  }
  stream.queue.push_back(std::move(work));
  const Ticket ticket{&stream, ++stream.issued};
  if (stream.queue.size() > kDepth) drive(lock, {&stream, stream.issued - kDepth / 2});
  return ticket;
}

void drive(Lock& lock, Ticket ticket) {
  CUstream_st& stream = *ticket.stream;
  while (stream.done < ticket.number) {
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    // What it waits for was issued before it, so this ends, and goes no deeper than there are streams.
    for (const Ticket& before : work.after) drive(lock, before);
    if (!work.touches_memory) {
      work.run();
    } else if (work.run) {
      open_memory(stream.device);
      const Executing executing;
      work.run();
      check_ends();
    }
    ++stream.done;
    ++world().counters.executed;
  }
}

bool poll(Lock& lock, Ticket ticket) {
  CUstream_st& stream = *ticket.stream;
  if (stream.done >= ticket.number) return true;
  drive(lock, {&stream, stream.done + (ticket.number - stream.done + 1) / 2});
  return false;
}

void drive_device(Lock& lock, int device) {
  for (const auto& stream : world().streams[static_cast<std::size_t>(device)]) {
    drive(lock, {stream.get(), stream->issued});
  }
}

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) { return enqueue_all(handle, {std::move(work)}); }

cudaError_t enqueue_all(cudaStream_t handle, std::vector<std::function<void()>> kernels) {
  bool first = true;
  for (auto& work : kernels) {
    if (!first && world().waiting > 0) std::this_thread::yield();
    Lock lock;
    if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
    CUstream_st* const stream = find_stream(handle);
    if (stream == nullptr || stream->device != current_device()) return note(cudaErrorInvalidResourceHandle);
    if (std::exchange(first, false)) ++world().counters.enqueued;
    push(lock, *stream, {std::move(work), {}});
  }
  return cudaSuccess;
}

Counters counters() {
  Lock lock;
  return world().counters;
}

}  // namespace cuda_emulator
