#include <map>

#include "cuda_emulator/block.h"
#include "cuda_emulator/world.h"

namespace cuda_emulator {
namespace {

constexpr unsigned kShared = 48 * 1024;        // of a block, unless the kernel asked for more
constexpr unsigned kSharedOptIn = 227 * 1024;  // at most

/// What cudaFuncSetAttribute allowed each kernel.
std::map<const void*, unsigned>& opted_in() {
  static auto& it = *new std::map<const void*, unsigned>;
  return it;
}

/// What a device refuses.
cudaError_t check(const void* kernel, dim3 grid, dim3 block, unsigned shared) {
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024) {
    return cudaErrorInvalidConfiguration;
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  const auto limit = opted_in().find(kernel);
  if (shared > (limit == opted_in().end() ? kShared : limit->second)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

std::function<void()> run_of(const void* kernel, dim3 grid, dim3 block, unsigned shared, std::function<void()> thread) {
  return [=, thread = std::move(thread)] { run_grid(kernel, grid, block, shared, thread); };
}

}  // namespace

cudaError_t detail::launch(const void* kernel, dim3 grid, dim3 block, unsigned shared, cudaStream_t handle,
                           void** arguments, const Bind& bind) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  CUstream_st* const stream = find_stream(handle);
  if (stream == nullptr || stream->device != current_device()) return note(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = check(kernel, grid, block, shared); error != cudaSuccess) return note(error);
  ++world().counters.launches;
  push(lock, *stream, {run_of(kernel, grid, block, shared, bind(arguments)), {}});
  if (stream->recorded) {
    stream->recorded->last->kernel = kernel;
    stream->recorded->last->bind = bind;
  }
  return cudaSuccess;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaKernelNodeParams* given) {
  Lock lock;
  // (CUDA takes another kernel, too; here its arguments would be read as the recorded one's.)
  if (exec == nullptr || node == nullptr || given == nullptr || node->kernel != given->func || given->func == nullptr) {
    return note(cudaErrorInvalidValue);
  }
  const auto& [function, grid, block, shared, arguments, extra] = *given;
  if (const cudaError_t error = check(function, grid, block, shared); error != cudaSuccess) return note(error);
  exec->work[node->place].run = run_of(function, grid, block, shared, node->bind(arguments));
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || static_cast<unsigned>(value) > kSharedOptIn) return note(cudaErrorInvalidValue);
    opted_in()[kernel] = static_cast<unsigned>(value);
  }
  return cudaSuccess;
}

}  // extern "C"
