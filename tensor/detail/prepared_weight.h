#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/storage.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// One weight as kernels want it: the same numbers in another order, or mapped. Each form has a type of its kernel's.
/// Thread-safety: everything may be called from any thread.
class PreparedForms {
 public:
  struct Form {
    Form() = default;
    Form(const Form&) = delete;
    Form& operator=(const Form&) = delete;
    virtual ~Form() = default;
  };

  /// The form of type T for which `fits(form)`; null: nobody has kept one.
  template <class T, class Fits>
  std::shared_ptr<const T> find(const Fits& fits) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& form : forms_) {
      const auto* const found = dynamic_cast<const T*>(form.get());
      if (found && fits(*found)) return {form, found};
    }
    return nullptr;
  }
  /// At most kMost: what comes then is used once.
  void keep(std::shared_ptr<const Form> form) {
    const std::scoped_lock lock(mutex_);
    if (forms_.size() < kMost) forms_.push_back(std::move(form));
  }

 private:
  static constexpr std::size_t kMost = 64;  // threads that share out channels each have some, and sizes of images may

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Form>> forms_;
};

/// A weight's forms for evaluation, kept while the weight has the same version. It holds the weight's storage, lest
/// another take its address. A copy, or what it is moved to, begins with nothing.
///
/// A write through a raw pointer raises no version and is not seen: call storage()->bump_version() after it.
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
      forms_ = std::make_shared<PreparedForms>();
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
  std::mutex mutex_;
  std::atomic<bool> holds_{false};  // so that clear() is cheap
  Ref<Storage> storage_;
  uint32_t version_ = 0;
  std::shared_ptr<PreparedForms> forms_;
};

}  // namespace tendril::detail

TENDRIL_API_END
