#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "cuda_emulator/memory.h"
#include "cuda_emulator/settings.h"
#include "cuda_emulator/world.h"

/// What the emulated devices say of themselves: an H100's limits, with two multiprocessors, so that a grid of "as many
/// blocks as run at once" still has several rounds.
namespace cuda_emulator {

namespace {

bool exists(int device) { return device >= 0 && device < world().devices; }

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  Lock lock;
  if (count == nullptr) return note(cudaErrorInvalidValue);
  *count = world().devices;
  return note(need_device());
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
  Lock lock;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return note(error);
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  current_device() = device;
  return note(need_context());  // since CUDA 12
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  Lock lock;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return note(error);
  *device = current_device();
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Lock lock;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return note(error);
  if (properties == nullptr) return note(cudaErrorInvalidValue);
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated");
  // The same in every process of a host, which the environment tells apart.
  const std::uint64_t host = from_environment("TENDRIL_EMULATED_HOST", 0);
  std::memcpy(properties->uuid.bytes, &host, sizeof host);
  properties->uuid.bytes[15] = static_cast<char>(device + 1);
  properties->totalGlobalMem = memory_size(device);
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = 227 * 1024;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->major = 9;
  properties->unifiedAddressing = 1;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  switch (attribute) {  // what somebody asks for
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    default:
      return note(cudaErrorNotSupported);
  }
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  Lock lock;
  if (can == nullptr) return note(cudaErrorInvalidValue);
  if (!exists(device) || !exists(peer)) return note(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (!exists(peer) || peer == current_device()) return note(cudaErrorInvalidDevice);
  if (flags != 0) return note(cudaErrorInvalidValue);
  const bool fresh = world().peers.emplace(current_device(), peer).second;
  return note(fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

/// The driver's functions that somebody asks for.
cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                       unsigned long long, cudaDriverEntryPointQueryResult* found) {
  CUresult (*const state)(CUdevice, unsigned*, int*) = [](CUdevice device, unsigned* flags, int* active) {
    if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = has_context(device) ? 1 : 0;
    return CUDA_SUCCESS;
  };
  CUresult (*const range)(CUdeviceptr*, std::size_t*, CUdeviceptr) = [](CUdeviceptr* base, std::size_t* bytes,
                                                                        CUdeviceptr address) {
    Lock lock;
    const Allocated found_there = allocation_at(reinterpret_cast<const void*>(address));
    *base = reinterpret_cast<CUdeviceptr>(found_there.begin);
    *bytes = found_there.bytes;
    return found_there.bytes > 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  };
  *function = nullptr;
  if (std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0) *function = reinterpret_cast<void*>(state);
  if (std::strcmp(symbol, "cuMemGetAddressRange") == 0) *function = reinterpret_cast<void*>(range);
  const bool known = *function != nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  *version = world().driver;
  return cudaSuccess;
}

}  // extern "C"
