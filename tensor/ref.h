#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Base of intrusively counted objects. One allocation, one pointer: a `std::shared_ptr` costs two of each, which
/// shows in the price of a small operation (docs/decisions/0001-small-ops.md).
/// A derived class `T` provides `static void destroy(T*) noexcept`, called by the thread that drops the last reference.
/// The count is thread-safe; the object is as thread-safe as its class says.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  /// Counts the first reference to an object that nobody else has seen: a store, where `retain` is an atomic addition.
  void retain_first() const noexcept { refs_.store(1, std::memory_order_relaxed); }
  void retain() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  /// True when this was the last reference. A sole owner need not pay for an atomic subtraction.
  bool release() const noexcept {
    if (refs_.load(std::memory_order_acquire) == 1) return true;
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  uint32_t use_count() const noexcept { return refs_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<uint32_t> refs_{0};
};

/// An owning pointer to a `RefCounted` object; the size of a raw pointer.
template <class T>
class Ref {
 public:
  Ref() noexcept = default;
  Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* object) noexcept : object_(object) {
    if (object_) object_->retain();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(Ref<U> other)
  noexcept : object_(other.take()) {}
  // Most are null when they end (moved from, of a tensor in no graph): only that is looked at inline.
  [[gnu::always_inline]] ~Ref() {
    if (object_) drop(object_);
  }

  Ref& operator=(const Ref& other) noexcept {
    Ref(other).swap(*this);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref(std::move(other)).swap(*this);
    return *this;
  }

  void reset() noexcept {
    if (T* old = std::exchange(object_, nullptr)) drop(old);
  }
  void swap(Ref& other) noexcept { std::swap(object_, other.object_); }
  /// Hands the reference to the caller, who must give it to `Ref::adopt`.
  [[nodiscard]] T* take() noexcept { return std::exchange(object_, nullptr); }
  /// The first reference to a new object.
  [[nodiscard]] static Ref first(T* object) noexcept {
    object->retain_first();
    return adopt(object);
  }
  [[nodiscard]] static Ref adopt(T* object) noexcept {
    Ref ref;
    ref.object_ = object;
    return ref;
  }

  T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.object_ == b.object_; }
  friend bool operator==(const Ref& a, std::nullptr_t) noexcept { return a.object_ == nullptr; }

 private:
  static void drop(T* object) noexcept {
    if (object->release()) T::destroy(object);
  }

  T* object_ = nullptr;
};

}  // namespace tendril

TENDRIL_API_END
