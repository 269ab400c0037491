#include <cstring>

#include "cuda_emulator/memory.h"
#include "cuda_emulator/world.h"

namespace cuda_emulator {
namespace {

/// Both ends of a copy, as their addresses tell.
struct Ends {
  Location to, from;
};

/// What is wrong with a copy of `bytes`: an end that is not allocated that far, or a direction that is not so.
cudaError_t check(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Ends& ends) {
  if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
  ends = {locate(to), locate(from)};
  for (const Location& end : {ends.to, ends.from}) {
    if (end.place != Place::kPageable && end.bytes < bytes) return cudaErrorInvalidValue;
  }
  const bool to_device = ends.to.place == Place::kDevice, from_device = ends.from.place == Place::kDevice;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to_device || from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyHostToDevice:
      return !to_device || from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToHost:
      return to_device || !from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToDevice:
      return !to_device || !from_device ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDefault:
      return cudaSuccess;
  }
  return cudaErrorInvalidMemcpyDirection;
}

cudaError_t copy(Lock& lock, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, CUstream_st& stream) {
  if (bytes == 0) return cudaSuccess;
  Ends ends;
  if (const cudaError_t error = check(to, from, bytes, kind, ends); error != cudaSuccess) return error;
  ++world().counters.copies;
  world().counters.copied_bytes += bytes;
  const bool to_device = ends.to.place == Place::kDevice, from_device = ends.from.place == Place::kDevice;
  // Pageable memory too is read when the copy runs: "might be synchronous" is all that is promised of cudaMemcpyAsync.
  Work work;
  work.run = [=] {
    open_also(ends.to.device);
    open_also(ends.from.device);
    std::memmove(to, from, bytes);
  };
  const Ticket ticket = push(lock, stream, std::move(work));
  // Pageable memory cannot be written later, and between two places of the host everything is done at once.
  if (ends.to.place == Place::kPageable || (!to_device && !from_device)) {
    ++world().counters.synchronisations;
    drive(lock, ticket);
  }
  return cudaSuccess;
}

cudaError_t fill(Lock& lock, void* to, int value, std::size_t bytes, CUstream_st& stream) {
  if (bytes == 0) return cudaSuccess;
  const Location where = locate(to);
  if (where.place == Place::kPageable || where.bytes < bytes) return cudaErrorInvalidValue;
  ++world().counters.fills;
  const auto run = [=] {
    open_also(where.device);
    std::memset(to, value, bytes);
  };
  push(lock, stream, {run, {}});
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                      cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  return note(copy(lock, to, from, bytes, kind, *stream));
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                          cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  for (const int device : {to_device, from_device}) {
    if (device < 0 || device >= world().devices) return note(cudaErrorInvalidDevice);
  }
  if (bytes == 0) return cudaSuccess;
  if (locate(to).device != to_device || locate(from).device != from_device) return note(cudaErrorInvalidValue);
  return note(copy(lock, to, from, bytes, cudaMemcpyDeviceToDevice, *stream));
}

cudaError_t CUDARTAPI cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
  return note(fill(lock, to, value, bytes, *stream));
}

}  // extern "C"
