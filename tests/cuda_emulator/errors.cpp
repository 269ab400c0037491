#include <utility>

#include "cuda_emulator/world.h"

namespace cuda_emulator {
namespace {

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

struct Named {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define NAMED(error, text) \
  { error, #error, text }

/// Those that the emulator gives, and a few that tests make up; the texts are the runtime's own.
constexpr Named kErrors[] = {
    NAMED(cudaSuccess, "no error"),
    NAMED(cudaErrorInvalidValue, "invalid argument"),
    NAMED(cudaErrorMemoryAllocation, "out of memory"),
    NAMED(cudaErrorInitializationError, "initialization error"),
    NAMED(cudaErrorCudartUnloading, "driver shutting down"),
    NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    NAMED(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    NAMED(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    NAMED(cudaErrorInvalidDeviceFunction, "invalid device function"),
    NAMED(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    NAMED(cudaErrorInvalidDevice, "invalid device ordinal"),
    NAMED(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    NAMED(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    NAMED(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    NAMED(cudaErrorDeviceUninitialized, "invalid device context"),
    NAMED(cudaErrorNotReady, "device not ready"),
    NAMED(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    NAMED(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    NAMED(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    NAMED(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    NAMED(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    NAMED(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    NAMED(cudaErrorAssert, "device-side assert triggered"),
    NAMED(cudaErrorLaunchFailure, "unspecified launch failure"),
    NAMED(cudaErrorNotPermitted, "operation not permitted"),
    NAMED(cudaErrorNotSupported, "operation not supported"),
    NAMED(cudaErrorUnknown, "unknown error"),
};

#undef NAMED

}  // namespace

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaGetLastError() { return std::exchange(last_error(), cudaSuccess); }
cudaError_t CUDARTAPI cudaPeekAtLastError() { return last_error(); }

const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  for (const Named& named : kErrors) {
    if (named.error == error) return named.name;
  }
  return "unrecognized error code";
}

const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  for (const Named& named : kErrors) {
    if (named.error == error) return named.text;
  }
  return "unrecognized error code";
}

}  // extern "C"
