#include "tendril/tensor/cuda/index_errors.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>

#include "tendril/tensor/cuda/check.h"
#include "tendril/tensor/cuda/current.h"
#include "tendril/tensor/cuda/runtime.h"

namespace tendril::cuda {

namespace {

constexpr std::size_t kMostDevices = 64;

/// One device's record, as host and device see it. Made once, never freed: the driver may be gone before static objects
/// are.
struct Shared {
  IndexRecord* host;
  IndexRecord* device;
};
std::array<std::atomic<const Shared*>, kMostDevices> records{};
std::mutex making;

const Shared& record_of(int device) {
  auto& slot = records[static_cast<std::size_t>(device)];
  if (const Shared* made = slot.load(std::memory_order_acquire)) [[likely]]
    return *made;
  const std::lock_guard lock(making);
  if (const Shared* made = slot.load(std::memory_order_acquire)) return *made;
  void* host = nullptr;
  void* seen = nullptr;
  TENDRIL_CUDA("index checks", cudaHostAlloc, &host, sizeof(IndexRecord), cudaHostAllocMapped | cudaHostAllocPortable);
  TENDRIL_CUDA("index checks", cudaHostGetDevicePointer, &seen, host, 0);
  const auto* made = new Shared{new (host) IndexRecord{}, static_cast<IndexRecord*>(seen)};
  slot.store(made, std::memory_order_release);
  return *made;
}

/// Throws what is noted, saying where it came from if it is an earlier operation's.
void throw_noted(int device, bool late) {
  const Shared* shared = records[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  if (!shared) return;
  const std::atomic_ref<int> state(shared->host->state);
  if (state.load(std::memory_order_acquire) != IndexRecord::kComplete) return;
  const IndexRecord noted = *shared->host;
  // Of several threads that wait at once, one throws.
  int complete = IndexRecord::kComplete;
  if (!state.compare_exchange_strong(complete, IndexRecord::kEmpty)) return;
  const std::string text = index_error_text(noted.use, noted.value, noted.dim, noted.size);
  if (!late) throw IndexError(text);
  tendril::detail::raise<IndexError>(
      text, " (on cuda:", device,
      ", noticed when its work was waited for; cuda::set_checked(true) throws where it happens)");
}

bool asked_for() {
  const char* wanted = std::getenv("TENDRIL_CUDA_CHECKED");
  return wanted && std::string_view(wanted) == "1";
}

std::atomic<bool>& checking() {
  static std::atomic<bool> flag{asked_for()};
  return flag;
}
std::atomic<bool> in_order{false};

}  // namespace

IndexReport index_report(IndexUse use, int dim, int64_t size) {
  return {record_of(current_device()).device, dim, use, size};
}

void throw_index_errors(int device) { throw_noted(device, true); }

void set_checked(bool on) noexcept { checking().store(on, std::memory_order_relaxed); }
bool checked() noexcept { return checking().load(std::memory_order_relaxed); }
void set_deterministic(bool on) noexcept { in_order.store(on, std::memory_order_relaxed); }
bool deterministic() noexcept { return in_order.load(std::memory_order_relaxed); }

void check_indices(const View& index, const IndexReport& report) {
  note_bad_indices(index, report);
  if (!checked()) return;
  TENDRIL_CUDA("index checks", cudaStreamSynchronize, current_stream());
  throw_noted(current_device(), false);
}

}  // namespace tendril::cuda
