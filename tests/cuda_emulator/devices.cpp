#include <cuda.h>

#include <cstdio>
#include <cstring>

#include "cuda_emulator/memory.h"
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
  properties->totalGlobalMem = memory_size(device);
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = 227 * 1024;
  properties->sharedMemPerMultiprocessor = 228 * 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->memPitch = 0x7fffffff;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->totalConstMem = 65536;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 2;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 1;
  properties->unifiedAddressing = 1;
  properties->memoryPoolsSupported = 1;
  properties->hostRegisterSupported = 1;
  properties->l2CacheSize = 4 << 20;
  properties->memoryBusWidth = 64;
  properties->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
      *value = properties.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      *value = properties.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = properties.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      *value = properties.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = properties.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = properties.maxGridSize[2];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = properties.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = properties.regsPerBlock;
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = properties.regsPerMultiprocessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = properties.unifiedAddressing;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = properties.memoryPoolsSupported;
      break;
    case cudaDevAttrClockRate:
      *value = 1'000'000;
      break;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 1'000'000;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = properties.memoryBusWidth;
      break;
    case cudaDevAttrPciBusId:
      *value = properties.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      *value = properties.pciDeviceID;
      break;
    case cudaDevAttrPciDomainId:
      *value = properties.pciDomainID;
      break;
    default:
      *value = 0;
      break;
  }
  return cudaSuccess;
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

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
  Lock lock;
  if (!exists(peer)) return note(cudaErrorInvalidDevice);
  const bool was = world().peers.erase({current_device(), peer}) != 0;
  return note(was ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  Lock lock;
  if (const cudaError_t error = need_device(); error != cudaSuccess) return note(error);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
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
  const bool known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
  *function = known ? reinterpret_cast<void*>(state) : nullptr;
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // extern "C"
