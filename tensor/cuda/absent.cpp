#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/cuda/runtime/index_owner.h"
#include "tendril/tensor/cuda/runtime/ipc.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/kernels.h"

/// Stands in for the CUDA backend in a library that was built without it.
namespace tendril {

namespace {

[[noreturn]] void no_cuda(const char* op) { detail::raise<Error>(op, ": no CUDA device: ", cuda::why_unavailable()); }

}  // namespace

detail::EnteredDevice detail::enter_device(Device device) {
  raise<Error>("no kernels for ", device, ": ", cuda::why_unavailable());
}
void detail::leave_device(int) noexcept {}

namespace cuda {

int device_count() noexcept { return 0; }
Allocation allocate(std::size_t bytes, Device device) {
  tendril::detail::raise<Error>("cannot allocate ", bytes, " bytes on ", device, ": ", why_unavailable());
}
void release(void*) noexcept {}
void transfer(void*, Device, const void*, Device, std::size_t, bool) { no_cuda("copy"); }

bool is_available() noexcept { return false; }
std::string why_unavailable() { return "this library was built without CUDA"; }
std::string device_name(int) { no_cuda("device_name"); }
Device local_device() { no_cuda("local_device"); }
void set_local_rank(int) noexcept {}
void synchronize(int) { no_cuda("synchronize"); }
void set_checked(bool) noexcept {}
bool checked() noexcept { return false; }
void set_deterministic(bool) noexcept {}
bool deterministic() noexcept { return false; }

Stream::Stream(int device, int) : device_(device) { no_cuda("Stream"); }
Stream Stream::default_of(int) { no_cuda("Stream::default_of"); }
Stream Stream::current(int) { no_cuda("Stream::current"); }
bool Stream::done() const { return true; }
void Stream::synchronize() const {}
void Stream::wait(const Event&) const {}
void Event::record() { no_cuda("Event::record"); }
void Event::record(const Stream&) { no_cuda("Event::record"); }
bool Event::done() const { return true; }
void Event::synchronize() const {}
void Event::reach() const {}
double Event::milliseconds_since(const Event&) const { no_cuda("milliseconds_since"); }
StreamGuard::StreamGuard(const Stream& stream) : stream_(stream), before_(nullptr) {}
StreamGuard::~StreamGuard() = default;
DefaultStreams::DefaultStreams() = default;
DefaultStreams::~DefaultStreams() = default;
struct Graph::State {};
Graph::Graph(int) { no_cuda("Graph"); }
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;
void Graph::capture(const std::function<void()>&) { no_cuda("Graph::capture"); }
void Graph::replay() const { no_cuda("Graph::replay"); }
CopyAhead::CopyAhead(int device) : stream_(device) {}
void CopyAhead::push(const std::vector<Tensor>&) { no_cuda("CopyAhead::push"); }
std::vector<Tensor> CopyAhead::pop() { no_cuda("CopyAhead::pop"); }
void record_stream(const Tensor&, const Stream&) {}

void set_call_of_thread(CallStamp (*)() noexcept) noexcept {}
CallStamp call_of_thread() noexcept { return {}; }
bool has_index_work(const CallStamp&) noexcept { return false; }
std::vector<Event> ends_of_index_work(const CallStamp&) { return {}; }
void throw_index_errors_of(const CallStamp&, int) {}
void end_index_work(const CallStamp&) noexcept {}

struct SharedBlock::Segment {};
DeviceId device_id(int) { no_cuda("device_id"); }
std::optional<SharedBlock> SharedBlock::take(std::size_t, int) noexcept { return std::nullopt; }
SharedBlock::SharedBlock(SharedBlock&&) noexcept {}
SharedBlock::~SharedBlock() {}  // none is ever made
void* SharedBlock::data() const noexcept { return nullptr; }
const SharedSegment& SharedBlock::segment() const noexcept {
  static const SharedSegment none;
  return none;
}
OpenedSegment::OpenedSegment(const DeviceId&, const IpcHandle&, std::size_t bytes, int device)
    : bytes_(bytes), device_(device) {
  no_cuda("shared memory");
}
OpenedSegment::~OpenedSegment() {}

MemoryStats memory_stats(int) { no_cuda("memory_stats"); }
void reset_peak_memory(int) { no_cuda("reset_peak_memory"); }
void empty_cache(int) { no_cuda("empty_cache"); }
PinnedBuffer::PinnedBuffer(std::size_t) { no_cuda("pinned memory"); }
PinnedBuffer::PinnedBuffer(PinnedBuffer&&) noexcept = default;
PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&&) noexcept = default;
PinnedBuffer::~PinnedBuffer() = default;
void PinnedBuffer::used_by(const Stream&) {}
Tensor pinned_empty(const Dims&, DType) { no_cuda("pinned memory"); }
void copy_async(void*, Device, const void*, Device, std::size_t) { no_cuda("copy"); }

}  // namespace cuda
}  // namespace tendril
