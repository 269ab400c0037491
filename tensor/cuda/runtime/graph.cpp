#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/index_owner.h"
#include "tendril/tensor/cuda/runtime/renewals.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

namespace tendril::cuda {

namespace {

thread_local bool capturing = false;
thread_local cudaStream_t recorded_stream = nullptr;  ///< while it does
thread_local bool looks_at_indices = false;           ///< what is recorded

cudaStream_t queue(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// What a stream is given while it lives is recorded, with what is to be renewed in `recorder`. `end` gives the record;
/// without it all is forgotten.
class Capture {
 public:
  Capture(cudaStream_t stream, tendril::detail::Recorder& recorder) : stream_(stream) {
    // Relaxed: what is in danger of running in the middle (memory from the driver, other threads' work on streams of
    // their own) does no harm here; what would wait for the recorded stream is refused all the same.
    TENDRIL_CUDA("Graph::capture", cudaStreamBeginCapture, stream, cudaStreamCaptureModeRelaxed);
    capturing = true;
    recorded_stream = stream;
    tendril::detail::set_recorder(&recorder);
  }
  ~Capture() {
    if (!capturing) return;
    stop();
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
    cudaGetLastError();  // a capture that was broken says so again
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    stop();
    cudaGraph_t graph = nullptr;
    TENDRIL_CUDA("Graph::capture", cudaStreamEndCapture, stream_, &graph);
    return graph;
  }

 private:
  static void stop() noexcept {
    capturing = false;
    tendril::detail::set_recorder(nullptr);
  }

  cudaStream_t stream_;
};

}  // namespace

bool is_capturing() noexcept { return capturing; }
bool is_recorded(cudaStream_t stream) noexcept { return capturing && stream == recorded_stream; }
void note_recorded_indices() noexcept { looks_at_indices = true; }

struct Graph::State {
  explicit State(int device) : stream(Stream::of_graph(device)) {}
  ~State() { forget(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void forget() noexcept {
    if (!exec) return;
    const DeviceGuard guard(stream.device(), std::nothrow);
    if (before) cudaEventSynchronize(static_cast<cudaEvent_t>(end.native()));  // (what fails there, its next use says)
    before.reset();
    renewals.reset();  // not before: it may hold the last handles of what the replays read
    cudaGraphExecDestroy(std::exchange(exec, nullptr));
    cudaGraphDestroy(std::exchange(graph, nullptr));
    keep_memory_of(stream.device(), queue(stream), false);
  }

  Stream stream;                ///< nobody else's, so that memory which is free in it is the graph's
  cudaGraph_t graph = nullptr;  ///< whose nodes `renewals` names
  cudaGraphExec_t exec = nullptr;
  std::optional<Renewals> renewals;
  /// What the next replay comes behind: the last one, or what this stream still had to do for others when it was
  /// recorded. They use the same memory.
  std::optional<Stream> before;
  Event end;  ///< in `before`
  bool looks_at_indices = false;
};

Graph::Graph(int device) : state_(std::make_unique<State>(device)) {}
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

void Graph::capture(const std::function<void()>& step) {
  constexpr const char* op = "Graph::capture";
  TENDRIL_CHECK(state_, op, ": this graph was moved from");
  TENDRIL_CHECK(step, op, ": step: got an empty function");
  TENDRIL_CHECK(!capturing, op, ": this thread records another graph");
  TENDRIL_CHECK(call_of_thread() == CallStamp(), op, ": not within a call of rpc, whose errors are its own");
  TENDRIL_CHECK(is_memory_cached(), op, ": TENDRIL_CUDA_CACHE=0 gives memory back that a replay would use");
  state_->forget();
  const int device = state_->stream.device();
  const DeviceGuard on_device(device);
  // An earlier graph's results, whose memory is this stream's, were read here or there when they were dropped.
  for (const Stream& reader : {Stream::current(device), Stream::default_of(device)}) {
    Event read;
    read.record(reader);
    state_->stream.wait(read);
  }
  const StreamGuard on_stream(state_->stream);
  const cudaStream_t stream = queue(state_->stream);
  state_->end.record(state_->stream);
  state_->before = state_->stream;
  // From the first kernel on, what is free in the stream is in use whenever the graph runs.
  keep_memory_of(device, stream, true);
  try {
    Renewals& renewals = state_->renewals.emplace(Device{DeviceType::cuda, static_cast<int8_t>(device)});
    Capture recorded(stream, renewals);
    looks_at_indices = false;
    step();
    state_->looks_at_indices = looks_at_indices;
    TENDRIL_CHECK(!renewals.is_broken(), op, ": what would get other arguments failed half-way");
    state_->graph = recorded.end();
    const cudaError_t status = cudaGraphInstantiate(&state_->exec, state_->graph, 0);
    if (status != cudaSuccess) state_->exec = nullptr;
    check(status, op, "cudaGraphInstantiate");
  } catch (...) {
    state_->renewals.reset();
    if (state_->graph) cudaGraphDestroy(std::exchange(state_->graph, nullptr));
    keep_memory_of(device, stream, false);
    throw;
  }
}

void Graph::replay() const {
  TENDRIL_CHECK(state_ && state_->exec, "Graph::replay: nothing was captured");
  refuse_in_capture("Graph::replay", "a graph within a graph");
  TENDRIL_CHECK(!state_->looks_at_indices || call_of_thread() == CallStamp(),
                "Graph::replay: it looks at indices, and what is out of range would not be the call's error: expected ",
                "a thread that serves no call of rpc");
  const int device = state_->stream.device();
  const DeviceGuard guard(device);
  state_->renewals->renew_all(state_->exec);
  const Stream here = Stream::current(device);
  if (!(state_->before == here)) here.wait(state_->end);
  TENDRIL_CUDA("Graph::replay", cudaGraphLaunch, state_->exec, queue(here));
  try {
    state_->end.record(here);
  } catch (...) {
    cudaStreamSynchronize(queue(here));  // the replay is over when nobody can tell any more
    throw;
  }
  state_->before = here;
}

}  // namespace tendril::cuda
