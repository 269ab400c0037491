#include "cuda_emulator/world.h"

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int priority) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (handle == nullptr || (flags & ~unsigned{cudaStreamNonBlocking})) return note(cudaErrorInvalidValue);
  auto& streams = world().streams[static_cast<std::size_t>(current_device())];
  streams.push_back(std::make_unique<CUstream_st>(CUstream_st{current_device(), flags, priority, false}));
  CUstream_st* const made = streams.back().get();
  // Any handle that is free, a destroyed stream's above all: whoever still holds that means a stranger's stream now.
  *handle = made;
  if (auto& former = world().former_handles; !former.empty()) {
    *handle = former.back();
    former.pop_back();
  }
  world().handles.emplace(*handle, made);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t handle) {
  Lock lock;
  // What is in its queue runs all the same.
  if (world().handles.erase(handle) == 0) return note(cudaErrorInvalidResourceHandle);
  world().former_handles.push_back(handle);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  if (breaks_capture(stream)) return note(cudaErrorStreamCaptureUnsupported);
  ++world().counters.synchronisations;
  if (stream->done < stream->issued) ++world().counters.spins;
  drive(lock, {stream, stream->issued});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  if (breaks_capture(stream)) return note(cudaErrorStreamCaptureUnsupported);
  return poll(lock, {stream, stream->issued}) ? cudaSuccess : note(cudaErrorNotReady);
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || world().events.count(event) == 0) return note(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventWaitDefault) return note(cudaErrorInvalidValue);
  if (breaks_capture(stream)) return note(cudaErrorStreamCaptureUnsupported);
  if (event->record) push(lock, *stream, {{}, {event->record->ticket}});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceSynchronize() {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  for (const auto& stream : world().streams[static_cast<std::size_t>(current_device())]) {
    if (breaks_capture(stream.get())) return note(cudaErrorStreamCaptureUnsupported);
  }
  ++world().counters.synchronisations;
  drive_device(lock, current_device());
  return cudaSuccess;
}

}  // extern "C"
