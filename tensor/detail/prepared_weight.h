#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "tendril/tensor/export.h"
#include "tendril/tensor/storage.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// One weight as kernels want it: the same numbers in another order, or mapped. Each form has a type of its kernel's.
/// Thread-safety: everything may be called from any thread.
class PreparedForms {
 public:
  /// Its forms together take at most so many bytes: what is oldest goes.
  explicit PreparedForms(std::size_t limit) : limit_(limit) {}

  struct Form {
    explicit Form(std::size_t size) : bytes(size) {}
    Form(const Form&) = delete;
    Form& operator=(const Form&) = delete;
    virtual ~Form() = default;
    const std::size_t bytes;
  };

  /// The form of type T for which `fits(form)`; null: nobody has kept one.
  template <class T, class Fits>
  std::shared_ptr<const T> find(const Fits& fits) const {
    const std::scoped_lock lock(mutex_);
    return find_locked<T>(fits);
  }
  /// Keeps `form`, unless another thread has kept such a one meanwhile. The one to use.
  template <class T, class Fits>
  std::shared_ptr<const T> keep(std::shared_ptr<const T> form, const Fits& fits) {
    const std::scoped_lock lock(mutex_);
    if (auto other = find_locked<T>(fits)) return other;
    forms_.push_back(form);
    for (total_ += form->bytes; total_ > limit_; forms_.pop_front()) total_ -= forms_.front()->bytes;
    return form;
  }

 private:
  template <class T, class Fits>
  std::shared_ptr<const T> find_locked(const Fits& fits) const {
    for (const auto& form : forms_) {
      const auto* const found = dynamic_cast<const T*>(form.get());
      if (found && fits(*found)) return {form, found};
    }
    return nullptr;
  }

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::size_t total_ = 0;
  std::deque<std::shared_ptr<const Form>> forms_;
};

/// A weight's forms for evaluation, kept while the weight has the same version. It holds the weight's storage, lest
/// another take its address. A copy, or what it is moved to, begins with nothing.
///
/// Not for storage that may change unseen (Storage::may_change_unseen). Takes up to eight times the storage's memory.
/// Thread-safety: everything may be called from any thread; the weight must not be changed meanwhile.
class PreparedWeight {
 public:
  PreparedWeight() = default;
  PreparedWeight(const PreparedWeight&) {}
  PreparedWeight& operator=(const PreparedWeight& other) {
    if (this != &other) clear();
    return *this;
  }
  ~PreparedWeight() = default;

  /// Those of `storage` as it is now.
  std::shared_ptr<PreparedForms> forms_of(const Ref<Storage>& storage) {
    const std::scoped_lock lock(mutex_);
    if (!forms_ || storage_.get() != storage.get() || version_ != storage->version()) {
      storage_ = storage;
      version_ = storage->version();
      forms_ = std::make_shared<PreparedForms>(kTimes * storage->bytes());
      holds_.store(true, std::memory_order_relaxed);
    }
    return forms_;
  }
  /// Gives all memory back.
  void clear() {
    if (!holds_.load(std::memory_order_relaxed)) return;
    const std::scoped_lock lock(mutex_);
    storage_.reset();
    forms_.reset();
    holds_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kTimes = 8;  // its memory: Winograd's form takes four times, and one more is likely

  std::mutex mutex_;
  std::atomic<bool> holds_{false};  // so that clear() is cheap
  Ref<Storage> storage_;
  uint32_t version_ = 0;
  std::shared_ptr<PreparedForms> forms_;
};

}  // namespace tendril::detail

TENDRIL_API_END
