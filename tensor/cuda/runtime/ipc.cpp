#include "tendril/tensor/cuda/runtime/ipc.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/cuda/runtime/free_ranges.h"

namespace tendril::cuda {

namespace {

constexpr std::size_t kMostShared = std::size_t{1} << 30;  // of one device, for the life of the process
constexpr std::size_t kLeastSegment = std::size_t{32} << 20;
// cudaMalloc gives smaller ones parts of what it has, and a handle leads to the whole of that.
constexpr std::size_t kSegmentStep = std::size_t{2} << 20;
constexpr std::size_t kBlockStep = 512;

std::size_t rounded(std::size_t bytes, std::size_t step) noexcept { return (bytes + step - 1) / step * step; }

/// Where the allocation that holds `address` begins and how long it is, by the driver. {0, 0}: it cannot say.
std::pair<std::uintptr_t, std::size_t> allocation_of(const void* address) noexcept {
  using Ask = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  static const Ask ask = []() noexcept -> Ask {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &found, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t status = cudaGetDriverEntryPoint("cuMemGetAddressRange", &found, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess) cudaGetLastError();
    return status == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Ask>(found) : nullptr;
  }();
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (!ask || ask(&base, &bytes, reinterpret_cast<CUdeviceptr>(address)) != CUDA_SUCCESS) return {0, 0};
  return {static_cast<std::uintptr_t>(base), bytes};
}

/// Whether `address` is the first byte of an allocation of at least so many. Only then is a handle's offset 0 there.
bool is_whole_allocation(const void* address, std::size_t bytes) noexcept {
  const auto [base, length] = allocation_of(address);
  return base == reinterpret_cast<std::uintptr_t>(address) && length >= bytes;
}

int device_of(const DeviceId& id) {
  for (int device = 0; device < device_count(); ++device) {
    if (device_id(device) == id) return device;
  }
  return -1;
}

}  // namespace

DeviceId device_id(int device) {
  check_device(device);
  cudaDeviceProp properties{};
  TENDRIL_CUDA("device_id", cudaGetDeviceProperties, &properties, device);
  DeviceId id;
  static_assert(sizeof id == sizeof properties.uuid);
  std::memcpy(id.data(), &properties.uuid, sizeof id);
  return id;
}

// ---- this process's

struct SharedBlock::Segment {
  SharedSegment told;
  std::byte* base;
  FreeRanges free;
};

/// Never destroyed, as the driver's memory: others may have it open until this process ends.
struct SharedBlock::Segments {
  static Segments& all() {
    static auto& kept = *new Segments;
    return kept;
  }

  /// Under the mutex. Null: the device has none to spare, or cannot share.
  Segment* add(std::size_t bytes, int device) {
    std::size_t shared = 0;
    for (const Segment& one : segments) shared += one.told.device == device ? one.told.bytes : 0;
    const std::size_t wanted = std::max(kLeastSegment, rounded(bytes, kSegmentStep));
    if (wanted > kMostShared - shared) return nullptr;
    const DeviceGuard guard(device);
    void* base = nullptr;
    cudaIpcMemHandle_t handle;
    const bool allocated = cudaMalloc(&base, wanted) == cudaSuccess;
    if (!allocated || !is_whole_allocation(base, wanted) || cudaIpcGetMemHandle(&handle, base) != cudaSuccess) {
      if (allocated) cudaFree(base);
      cudaGetLastError();
      return nullptr;
    }
    SharedSegment told{.number = static_cast<uint32_t>(segments.size() + 1), .device = device, .bytes = wanted};
    static_assert(sizeof told.handle == sizeof handle);
    std::memcpy(told.handle.data(), &handle, sizeof handle);
    segments.push_back({told, static_cast<std::byte*>(base), FreeRanges(wanted)});
    return &segments.back();
  }

  std::mutex mutex;
  std::deque<Segment> segments;  // stay where they are
};

std::optional<SharedBlock> SharedBlock::take(std::size_t bytes, int device) noexcept try {
  if (bytes == 0 || bytes > kMostShared) return std::nullopt;
  const std::size_t length = rounded(bytes, kBlockStep);
  Segments& all = Segments::all();
  const std::lock_guard lock(all.mutex);
  for (Segment& segment : all.segments) {
    if (segment.told.device != device) continue;
    if (const auto offset = segment.free.take(length)) return SharedBlock(&segment, *offset, length);
  }
  Segment* const made = all.add(length, device);
  if (!made) return std::nullopt;
  return SharedBlock(made, *made->free.take(length), length);
} catch (...) {
  return std::nullopt;  // no memory of the host's, or no such device
}

SharedBlock::SharedBlock(SharedBlock&& other) noexcept
    : segment_(std::exchange(other.segment_, nullptr)), offset_(other.offset_), bytes_(other.bytes_) {}

SharedBlock::~SharedBlock() {
  if (!segment_) return;
  const std::lock_guard lock(Segments::all().mutex);
  segment_->free.put(offset_, bytes_);
}

void* SharedBlock::data() const noexcept { return segment_->base + offset_; }
const SharedSegment& SharedBlock::segment() const noexcept { return segment_->told; }

// ---- another process's

OpenedSegment::OpenedSegment(const DeviceId& home, const IpcHandle& handle, std::size_t bytes, int device)
    : bytes_(bytes), device_(device) {
  check_device(device);
  const int home_here = device_of(home);
  TENDRIL_CHECK(home_here >= 0, "this process does not see that device");
  int can = 1;
  if (home_here != device) TENDRIL_CUDA("shared memory", cudaDeviceCanAccessPeer, &can, device, home_here);
  TENDRIL_CHECK(can != 0, "cuda:", device, " cannot reach the memory of cuda:", home_here);
  const DeviceGuard guard(device);
  cudaIpcMemHandle_t native;
  std::memcpy(&native, handle.data(), sizeof native);
  void* data = nullptr;
  TENDRIL_CUDA("shared memory", cudaIpcOpenMemHandle, &data, native, cudaIpcMemLazyEnablePeerAccess);
  if (!is_whole_allocation(data, bytes)) {
    cudaIpcCloseMemHandle(data);
    tendril::detail::raise<Error>("the handle leads to less than the ", bytes, " bytes that it is said to");
  }
  data_ = static_cast<const std::byte*>(data);
}

OpenedSegment::~OpenedSegment() {
  const DeviceGuard guard(device_, std::nothrow);
  cudaIpcCloseMemHandle(const_cast<std::byte*>(data_));  // what fails there, the device's next use reports
}

}  // namespace tendril::cuda
