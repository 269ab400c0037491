#include "cuda_emulator/world.h"

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~kKnown)) return note(cudaErrorInvalidValue);
  *event = new CUevent_st{current_device(), flags, nullptr};
  world().events.insert(*event);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (world().events.erase(event) == 0) return note(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || world().events.count(event) == 0 || event->device != stream->device) {
    return note(cudaErrorInvalidResourceHandle);
  }
  if (breaks_capture(stream)) return note(cudaErrorStreamCaptureUnsupported);
  auto record = std::make_shared<Record>();
  event->record = record;
  record->ticket = {stream, stream->issued + 1};
  push(lock, *stream, {[record] { record->when = std::chrono::steady_clock::now(); }, {}, false});
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (world().events.count(event) == 0) return note(cudaErrorInvalidResourceHandle);
  ++world().counters.synchronisations;
  const bool waits = event->record && event->record->ticket.stream->done < event->record->ticket.number;
  if (waits && !(event->flags & cudaEventBlockingSync)) ++world().counters.spins;
  if (event->record) drive(lock, event->record->ticket);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (world().events.count(event) == 0) return note(cudaErrorInvalidResourceHandle);
  return !event->record || poll(lock, event->record->ticket) ? cudaSuccess : note(cudaErrorNotReady);
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  for (const cudaEvent_t event : {start, end}) {
    if (world().events.count(event) == 0 || !event->record || (event->flags & cudaEventDisableTiming)) {
      return note(cudaErrorInvalidResourceHandle);
    }
  }
  for (const cudaEvent_t event : {start, end}) {
    const Ticket& ticket = event->record->ticket;
    if (ticket.stream->done < ticket.number) return note(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->record->when - start->record->when).count();
  return cudaSuccess;
}

}  // extern "C"
