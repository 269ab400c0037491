#include "tendril/tensor/cuda/runtime/device.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"

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

namespace {

std::atomic<int> local_rank{0};

/// Forgets an error, which CUB would report as its own.
void try_set_device(int index) noexcept {
  if (cudaSetDevice(index) != cudaSuccess) cudaGetLastError();
}

/// Whether anything in this process has made the device's context. True where the driver cannot be asked.
bool has_context(int index) noexcept {
  static std::atomic<uint64_t> known{0};  // bit i: device i has one
  const uint64_t bit = index < 64 ? uint64_t{1} << index : 0;
  if (known.load(std::memory_order_relaxed) & bit) return true;
  using Ask = CUresult (*)(CUdevice, unsigned*, int*);
  static const Ask ask = []() noexcept -> Ask {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &found, 7000, cudaEnableDefault, &result);
#else
    const cudaError_t status =
        cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Ask>(found) : nullptr;
  }();
  unsigned flags = 0;
  int active = 1;
  if (ask && ask(index, &flags, &active) == CUDA_SUCCESS && active == 0) return false;
  known.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

}  // namespace

void check_device(int index) {
  const int count = device_count();
  if (index >= 0 && index < count) [[likely]]
    return;
  TENDRIL_CHECK(count > 0, "no CUDA device: ", why_unavailable());
  tendril::detail::raise<Error>("cuda:", index, ": this process sees ", count, " CUDA device", count == 1 ? "" : "s",
                                ", counted from 0");
}

int enter_device(int index) {
  check_device(index);
  int now = -1;
  TENDRIL_CUDA("cuda", cudaGetDevice, &now);
  if (now == index) return -1;
  const int before = has_context(now) ? now : -1;
  const cudaError_t status = cudaSetDevice(index);
  if (status != cudaSuccess && before >= 0) try_set_device(before);
  check(status, "cuda", "cudaSetDevice");
  return before;
}

void leave_device(int before) noexcept { try_set_device(before); }

int any_device() {
  const int now = current_device();
  if (has_context(now)) return now;
  for (int i = 0; i < device_count(); ++i) {
    if (has_context(i)) return i;
  }
  return local_device().index;
}

void set_local_rank(int rank) noexcept { local_rank.store(rank < 0 ? 0 : rank, std::memory_order_relaxed); }

Device local_device() {
  TENDRIL_CHECK(is_available(), "local_device: no CUDA device: ", why_unavailable());
  return {DeviceType::cuda, static_cast<int8_t>(local_rank.load(std::memory_order_relaxed) % device_count())};
}

DeviceGuard::DeviceGuard(int index, const std::nothrow_t&) noexcept : before_(-1) {
  int now = index;
  cudaGetDevice(&now);
  if (now == index) return;
  if (has_context(now)) before_ = now;
  try_set_device(index);
}

std::string device_name(int device) {
  check_device(device);
  cudaDeviceProp properties{};
  TENDRIL_CUDA("device_name", cudaGetDeviceProperties, &properties, device);
  return properties.name;
}

}  // namespace tendril::cuda
