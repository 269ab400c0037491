#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "tendril/tensor/device.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/ref.h"

TENDRIL_API_BEGIN

namespace tendril {

/// A block of memory shared by the tensors that view it. 64-byte aligned; small blocks come from thread-local slabs,
/// larger ones from size classes (tensor/memory.h). Contents are uninitialised.
/// Thread-safety: reference count and version are atomic; the bytes are the users' affair.
class Storage : public RefCounted {
 public:
  using Deleter = void (*)(void* context) noexcept;  ///< gives wrapped memory back

  /// Uninitialised memory. Throws Error where there is none left.
  static Ref<Storage> allocate(std::size_t bytes, Device device = kCPU) {
    return bytes <= kInlineLimit && device.is_cpu() ? allocate_inlined(bytes) : allocate_apart(bytes, device);
  }
  /// Wraps memory that is not ours; `deleter(context)` runs when the last tensor is gone.
  static Ref<Storage> wrap(void* data, std::size_t bytes, Device device, Deleter deleter, void* context);
  /// For Ref.
  static void destroy(Storage* storage) noexcept;

  /// Its first byte.
  void* data() const noexcept { return data_; }
  /// How many bytes it has.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Where it is.
  Device device() const noexcept { return device_; }
  /// False of memory that was wrapped: it is somebody else's, and perhaps read-only.
  bool owns_memory() const noexcept { return deleter_ == nullptr; }
  /// For the allocator of a device's memory; null where it gave none.
  void* block() const noexcept { return deleter_ ? nullptr : context_; }

  /// Counts in-place changes. Shared by all views, so that a saved tensor sees a change through any of them.
  uint32_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  /// It was changed: what was saved before is out of date.
  void bump_version() noexcept { version_.fetch_add(1, std::memory_order_relaxed); }

  /// Whether elements may change without a new version: it is somebody else's memory, or a pointer to write through was
  /// handed out (Tensor::data). Nothing that was computed from them is kept then.
  bool may_change_unseen() const noexcept { return !owns_memory() || exposed_.load(std::memory_order_relaxed); }
  /// Such a pointer is handed out.
  void expose() noexcept {
    if (!exposed_.load(std::memory_order_relaxed)) exposed_.store(true, std::memory_order_relaxed);
  }

 private:
  // Few elements live behind the header, in the same block: one allocation instead of two.
  static constexpr std::size_t kHeader = 64;
  static constexpr std::size_t kInlineLimit = 256;

  Storage() = default;
  static Ref<Storage> allocate_inlined(std::size_t bytes);
  static Ref<Storage> allocate_apart(std::size_t bytes, Device device);
  static void destroy_apart(Storage* storage) noexcept;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Deleter deleter_ = nullptr;  // null: the memory is ours
  void* context_ = nullptr;
  std::atomic<uint32_t> version_{0};
  std::atomic<bool> exposed_{false};
  Device device_;
};

inline Ref<Storage> Storage::allocate_inlined(std::size_t bytes) {
  void* block = memory::allocate(kHeader + bytes);
  auto* storage = new (block) Storage;
  storage->bytes_ = bytes;
  storage->data_ = static_cast<char*>(block) + kHeader;
  return Ref<Storage>::first(storage);
}

}  // namespace tendril

TENDRIL_API_END
