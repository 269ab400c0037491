#include "tendril/tensor/cuda/device.h"

#include <cuda_runtime_api.h>

#include <string>

#include "tendril/tensor/cuda/check.h"
#include "tendril/tensor/cuda/current.h"
#include "tendril/tensor/cuda/runtime.h"

namespace tendril::cuda {

namespace {

/// Asked once: neither the driver nor the number of devices changes under a process.
struct Devices {
  int count = 0;
  cudaError_t status = cudaSuccess;

  Devices() noexcept : status(cudaGetDeviceCount(&count)) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // no driver or no device is an answer, not an error that the next call should report
    count = 0;
  }
};
const Devices& devices() noexcept {
  static const Devices all;
  return all;
}

std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

}  // namespace

int device_count() noexcept { return devices().count; }
bool is_available() noexcept { return device_count() > 0; }

std::string why_unavailable() {
  if (is_available()) return "";
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver is loaded";
  if (devices().status == cudaErrorInsufficientDriver || driver / 1000 < runtime / 1000) {
    return "the driver (CUDA " + version(driver) + ") is older than the CUDA runtime " + version(runtime) +
           " that this library was built with";
  }
  if (devices().status == cudaErrorNoDevice || devices().status == cudaSuccess) {
    return "the driver sees no CUDA device (is CUDA_VISIBLE_DEVICES set?)";
  }
  return std::string("cudaGetDeviceCount: ") + cudaGetErrorString(devices().status);
}

void raise(cudaError_t status, const char* op, const char* call) {
  cudaGetLastError();  // reported here: the next launch should not report it again
  tendril::detail::raise<Error>(op, ": ", call, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

int current_device() {
  TENDRIL_CHECK(is_available(), "no CUDA device: ", why_unavailable());
  int index = 0;
  TENDRIL_CUDA("cuda", cudaGetDevice, &index);
  return index;
}

void set_current_device(int index) {
  const int count = device_count();
  if (index < 0 || index >= count) [[unlikely]] {
    TENDRIL_CHECK(count > 0, "no CUDA device: ", why_unavailable());
    tendril::detail::raise<Error>("cuda:", index, ": this process sees ", count, " CUDA device", count == 1 ? "" : "s",
                                  ", counted from 0");
  }
  int now = -1;
  TENDRIL_CUDA("cuda", cudaGetDevice, &now);
  if (now != index) TENDRIL_CUDA("cuda", cudaSetDevice, index);
}

DeviceGuard::~DeviceGuard() { cudaSetDevice(before_); }

std::string device_name(int device) {
  const DeviceGuard guard(device);
  cudaDeviceProp properties{};
  TENDRIL_CUDA("device_name", cudaGetDeviceProperties, &properties, device);
  return properties.name;
}

}  // namespace tendril::cuda
