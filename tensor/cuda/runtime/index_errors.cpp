#include "tendril/tensor/cuda/runtime/index_errors.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/index_owner.h"
#include "tendril/tensor/cuda/runtime/index_records.h"

namespace tendril::cuda {

namespace {

constexpr std::size_t kMostDevices = 64;

/// Each device's record of the process's own work. Made once, never given back.
std::array<std::atomic<const SharedRecord*>, kMostDevices> records{};
std::mutex making;

const SharedRecord& record_of(int device) {
  auto& slot = records[static_cast<std::size_t>(device)];
  if (const SharedRecord* made = slot.load(std::memory_order_acquire)) [[likely]]
    return *made;
  const std::lock_guard lock(making);
  if (const SharedRecord* made = slot.load(std::memory_order_acquire)) return *made;
  const auto* made = new SharedRecord(take_record());
  slot.store(made, std::memory_order_release);
  return *made;
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
  if (const OwnedRecord of_call = record_of_call(); of_call.owner != 0) {
    return {of_call.record.device, dim, use, size, of_call.owner};
  }
  if (is_capturing()) note_recorded_indices();
  return {record_of(current_device()).device, dim, use, size, 0};
}

void throw_index_errors(int device) { throw_index_errors_of(call_of_thread(), device); }

void throw_index_errors_of_process(int device, bool late) {
  const SharedRecord* shared = records[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  if (shared) throw_noted(*shared, 0, device, late);
}

void set_checked(bool on) noexcept { checking().store(on, std::memory_order_relaxed); }
bool checked() noexcept { return checking().load(std::memory_order_relaxed); }
void set_deterministic(bool on) noexcept { in_order.store(on, std::memory_order_relaxed); }
bool deterministic() noexcept { return in_order.load(std::memory_order_relaxed); }

void check_indices(const View& index, const IndexReport& report) {
  note_bad_indices(index, report);
  throw_if_checked();
}

void throw_if_checked() {
  if (!checked()) return;
  TENDRIL_CUDA("index checks", cudaStreamSynchronize, current_stream());
  if (const OwnedRecord of_call = record_of_call(); of_call.owner != 0) {
    throw_noted(of_call.record, of_call.owner, current_device(), false);
  } else {
    throw_index_errors_of_process(current_device(), false);
  }
}

}  // namespace tendril::cuda
