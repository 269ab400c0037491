#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "tendril/tensor/export.h"
#include "tendril/tensor/storage.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// One weight as kernels want it: the same numbers in another order, or mapped. Each form has a type of its kernel's.
/// Thread-safety: everything may be called from any thread.
class PreparedForms {
 public:
  /// Its forms together take at most so many bytes: what is oldest goes. Unless it `keeps` what is made from now on, it
  /// does so from `begin_to_keep` on.
  explicit PreparedForms(std::size_t limit, bool keeps = true) : limit_(limit), keeps_(keeps) {}
  void begin_to_keep() noexcept { keeps_.store(true, std::memory_order_relaxed); }

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
  /// Keeps `form`, if it keeps any and no other thread has kept such a one meanwhile. The one to use.
  template <class T, class Fits>
  std::shared_ptr<const T> keep(std::shared_ptr<const T> form, const Fits& fits) {
    if (!keeps_.load(std::memory_order_relaxed)) return form;
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
  std::atomic<bool> keeps_;
  mutable std::mutex mutex_;
  std::size_t total_ = 0;
  std::deque<std::shared_ptr<const Form>> forms_;
};

/// Those of one weight as it is when this is made. Holds its storage, lest another take its address.
class FormsOfWeight final : public PreparedForms {
 public:
  FormsOfWeight(const Ref<Storage>& storage, bool keeps)
      : PreparedForms(kTimes * storage->bytes(), keeps), storage_(storage), version_(storage->version()) {}
  /// Whether it is so still, and nobody could have changed it unseen.
  bool is_of(const Storage& storage) const noexcept {
    return &storage == storage_.get() && storage.version() == version_ && !storage.may_change_unseen();
  }

 private:
  static constexpr std::size_t kTimes = 8;  // its memory: Winograd's form takes four times, each way

  const Ref<Storage> storage_;
  const uint32_t version_;
};

/// A weight's forms, kept while the weight has the same version: from its first call on where calls are not
/// recorded (evaluation), where they are from its second, as one of micro-batches: a step of one call
/// would pay for them with its peak of memory, and gain nothing. A copy, or what it is moved to, begins with nothing.
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

  /// Those of `storage` as it is now, for a call that is recorded or not. What others left goes with the first that is.
  std::shared_ptr<FormsOfWeight> forms_of(const Ref<Storage>& storage, bool recorded) {
    const std::scoped_lock lock(mutex_);
    if (forms_ && forms_->is_of(*storage) && (recorded_ || !recorded)) {
      forms_->begin_to_keep();
    } else {
      forms_ = std::make_shared<FormsOfWeight>(storage, !recorded);
      holds_.store(true, std::memory_order_relaxed);
    }
    recorded_ = recorded;
    return forms_;
  }
  /// Gives all memory back.
  void clear() {
    if (!holds_.load(std::memory_order_relaxed)) return;
    const std::scoped_lock lock(mutex_);
    forms_.reset();
    holds_.store(false, std::memory_order_relaxed);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> holds_{false};  // so that clear() is cheap
  bool recorded_ = false;           // its last call
  std::shared_ptr<FormsOfWeight> forms_;
};

}  // namespace tendril::detail

TENDRIL_API_END
