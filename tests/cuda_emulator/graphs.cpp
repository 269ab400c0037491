// Streams that are captured, and graphs of what they were given. One stream is a graph here: what would join others to
// it (events that are recorded or waited for meanwhile) is refused, as is what waits for a captured stream.
#include "cuda_emulator/world.h"

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  if (stream->legacy) return note(cudaErrorStreamCaptureUnsupported);
  if (stream->recorded || mode != cudaStreamCaptureModeRelaxed) return note(cudaErrorIllegalState);
  stream->recorded = std::make_unique<CUgraph_st>();
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Lock lock;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || !stream->recorded) return note(cudaErrorIllegalState);
  std::unique_ptr<CUgraph_st> recorded = std::move(stream->recorded);
  *graph = nullptr;
  if (recorded->broken) return note(cudaErrorStreamCaptureInvalidated);
  *graph = recorded.release();
  return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t* graph, const cudaGraphNode_t** last,
                                               const cudaGraphEdgeData**, std::size_t* count) {
#else
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** last, std::size_t* count) {
#endif
  Lock lock;
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || status == nullptr || id != nullptr || graph != nullptr) return note(cudaErrorInvalidValue);
  CUgraph_st* const recorded = stream->recorded.get();
  *status = recorded == nullptr ? cudaStreamCaptureStatusNone
            : recorded->broken  ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
  const bool has_nodes = recorded != nullptr && recorded->last != nullptr;
  if (last != nullptr) *last = has_nodes ? &recorded->last : nullptr;
  if (count != nullptr) *count = has_nodes ? 1 : 0;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  Lock lock;
  if (exec == nullptr || graph == nullptr || flags != 0) return note(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{current_device(), graph->work};
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || stream->device != exec->device || stream->recorded) {
    return note(cudaErrorInvalidResourceHandle);
  }
  ++world().counters.graphs;
  for (const Work& work : exec->work) push(lock, *stream, work);
  return cudaSuccess;
}

}  // extern "C"
