#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/index_errors.h"

namespace tendril::cuda {

namespace {

constexpr int kMostDevices = 64;
/// Null: the device's default stream.
thread_local std::array<cudaStream_t, kMostDevices> current{};

cudaStream_t& current_of(int device) { return current[static_cast<std::size_t>(device)]; }
cudaStream_t queue(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// A stream that somebody else owns.
std::shared_ptr<void> borrowed(cudaStream_t stream) { return {std::shared_ptr<void>(), stream}; }

/// No stream is ever destroyed: blocks of memory, events and scratch memory are known by the stream that uses them, and
/// the driver gives a destroyed stream's handle to the next one. Those that nobody has any more serve again.
class StreamPool {
 public:
  struct Kind {
    int device, priority;
    bool graphs = false;

    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  cudaStream_t take(const Kind& kind) {
    constexpr std::size_t kKept = 32;  // beyond that many with work left, a new user queues behind the oldest's
    const std::lock_guard lock(mutex_);
    std::deque<cudaStream_t>& idle = idle_[kind];
    const DeviceGuard guard(kind.device);
    for (auto it = idle.begin(); it != idle.end(); ++it) {
      if (is_pending(cudaStreamQuery(*it)) && idle.size() < kKept) continue;
      const cudaStream_t taken = *it;
      idle.erase(it);
      return taken;
    }
    cudaStream_t made = nullptr;
    TENDRIL_CUDA("Stream", cudaStreamCreateWithPriority, &made, cudaStreamNonBlocking, kind.priority);
    return made;
  }
  void put(const Kind& kind, cudaStream_t stream) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      idle_[kind].push_back(stream);
    } catch (...) {  // no memory: this stream is used no more
    }
  }

 private:
  std::mutex mutex_;
  std::map<Kind, std::deque<cudaStream_t>> idle_;
};

StreamPool& pool() {
  static auto& kept = *new StreamPool;  // streams with static storage come back later than static objects end
  return kept;
}

std::shared_ptr<void> pooled(const StreamPool::Kind& kind) {
  return {pool().take(kind), [kind](void* stream) { pool().put(kind, static_cast<cudaStream_t>(stream)); }};
}

/// An event in a step would draw other streams into it, whose memory and order a replay does not keep.
void refuse_where_recorded(const char* op, cudaStream_t stream) {
  TENDRIL_CHECK(!is_recorded(stream), op, ": cannot be recorded in a cuda::Graph: a step is work of one stream");
}

void check_number(int device) {
  check_device(device);
  TENDRIL_CHECK(device < kMostDevices, "cuda:", device, ": at most ", kMostDevices, " devices are supported");
}

}  // namespace

cudaStream_t current_stream() {
  int device = 0;
  TENDRIL_CUDA("cuda", cudaGetDevice, &device);
  return current_of(device);
}

void synchronize(int device) {
  const DeviceGuard guard(device);
  TENDRIL_CUDA("synchronize", cudaDeviceSynchronize);
  throw_index_errors(device);
}

Stream::Stream(int device, int priority) : device_(device) {
  check_number(device);
  queue_ = pooled({device, priority});
}

Stream Stream::of_graph(int device) {
  check_number(device);
  return {device, pooled({device, 0, true})};
}

Stream Stream::default_of(int device) {
  check_number(device);
  return {device, borrowed(nullptr)};
}

Stream Stream::current(int device) {
  check_number(device);
  return {device, borrowed(current_of(device))};
}

bool Stream::done() const {
  const DeviceGuard guard(device_);
  const cudaError_t status = cudaStreamQuery(queue(*this));
  if (is_pending(status)) return false;
  check(status, "Stream::done", "cudaStreamQuery");
  return true;
}

void Stream::synchronize() const {
  const DeviceGuard guard(device_);
  TENDRIL_CUDA("Stream::synchronize", cudaStreamSynchronize, queue(*this));
  throw_index_errors(device_);
}

void Stream::wait(const Event& event) const {
  if (!event.native()) return;
  refuse_where_recorded("Stream::wait", queue(*this));
  const DeviceGuard guard(device_);
  TENDRIL_CUDA("Stream::wait", cudaStreamWaitEvent, queue(*this), static_cast<cudaEvent_t>(event.native()), 0);
}

void Event::record() { record(Stream::current()); }

void Event::record(const Stream& stream) {
  refuse_where_recorded("Event::record", queue(stream));
  const DeviceGuard guard(stream.device());
  // A new one each time an event changes devices would need the device of the old: events are cheap, streams few.
  cudaEvent_t made = nullptr;
  // Whoever waits for one without timing leaves the processor to others: rpc's threads wait for most of what they send.
  const unsigned flags = timing_ ? cudaEventDefault : cudaEventDisableTiming | cudaEventBlockingSync;
  TENDRIL_CUDA("Event::record", cudaEventCreateWithFlags, &made, flags);
  device_ = stream.device();
  // On its device, here and below: a call for an event makes a context for the thread's, if that has none.
  event_ = std::shared_ptr<void>(made, [device = device_](void* event) {
    const DeviceGuard there(device, std::nothrow);
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
  });
  TENDRIL_CUDA("Event::record", cudaEventRecord, made, queue(stream));
}

bool Event::done() const {
  if (!event_) return true;
  const DeviceGuard guard(device_);
  const cudaError_t status = cudaEventQuery(static_cast<cudaEvent_t>(event_.get()));
  if (is_pending(status)) return false;
  check(status, "Event::done", "cudaEventQuery");
  return true;
}

void Event::reach() const {
  if (!event_) return;
  const DeviceGuard guard(device_);
  TENDRIL_CUDA("Event::synchronize", cudaEventSynchronize, static_cast<cudaEvent_t>(event_.get()));
}

void Event::synchronize() const {
  reach();
  if (event_) throw_index_errors(device_);
}

double Event::milliseconds_since(const Event& start) const {
  TENDRIL_CHECK(timing_ && start.timing_ && event_ && start.event_,
                "milliseconds_since: both events must be made with timing and recorded");
  const DeviceGuard guard(device_);
  float milliseconds = 0;
  TENDRIL_CUDA("milliseconds_since", cudaEventElapsedTime, &milliseconds, static_cast<cudaEvent_t>(start.event_.get()),
               static_cast<cudaEvent_t>(event_.get()));
  return milliseconds;
}

StreamGuard::StreamGuard(const Stream& stream) : stream_(stream) {
  before_ = std::exchange(current_of(stream.device()), queue(stream));
}

StreamGuard::~StreamGuard() { current_of(stream_.device()) = static_cast<cudaStream_t>(before_); }

namespace {

/// What `later` is given from now on comes after what `earlier` holds.
void put_behind(const Stream& later, const Stream& earlier) {
  Event issued;
  issued.record(earlier);
  later.wait(issued);
}

}  // namespace

DefaultStreams::DefaultStreams() {
  for (int device = 0; device < kMostDevices; ++device) {
    if (current_of(device) == nullptr) continue;
    own_.push_back(Stream::current(device));
    put_behind(Stream::default_of(device), own_.back());
  }
  for (const Stream& own : own_) current_of(own.device()) = nullptr;
}

DefaultStreams::~DefaultStreams() {
  for (const Stream& own : own_) {
    current_of(own.device()) = queue(own);
    try {
      put_behind(own, Stream::default_of(own.device()));
    } catch (...) {  // the device has failed: whoever waits for either stream is told
    }
  }
}

}  // namespace tendril::cuda
