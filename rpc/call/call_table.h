#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tendril::rpc::detail {

/// What is known of calls by their numbers, which are given in order: a hash table without nodes (open addressing, the
/// number itself is the hash), so that a call that comes and goes allocates nothing. Not thread-safe.
template <class T>
class CallTable {
 public:
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  bool contains(uint64_t call_id) const noexcept { return at(call_id) != nullptr; }
  /// Null: not there. Valid until the table is changed.
  T* find(uint64_t call_id) noexcept {
    Slot* const slot = const_cast<Slot*>(at(call_id));
    return slot ? &*slot->value : nullptr;
  }
  /// The number is not 0, and not there yet. If it throws nothing has changed, `value` neither.
  void insert(uint64_t call_id, T&& value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    place(call_id, std::move(value));
    ++size_;
  }
  std::optional<T> take(uint64_t call_id) noexcept {
    std::optional<T> taken;
    if (const Slot* const found = at(call_id)) {
      taken.emplace(std::move(*slots_[index(found)].value));
      vacate(index(found));
    }
    return taken;
  }
  /// `f(call_id, value)` for each, in no particular order; it must not change the table.
  template <class F>
  void for_each(F f) {
    for (Slot& slot : slots_) {
      if (slot.value) f(slot.call_id, *slot.value);
    }
  }
  template <class F>
  void for_each(F f) const {
    for (const Slot& slot : slots_) {
      if (slot.value) f(slot.call_id, *slot.value);
    }
  }
  void swap(CallTable& other) noexcept {
    slots_.swap(other.slots_);
    std::swap(size_, other.size_);
  }

 private:
  struct Slot {
    uint64_t call_id = 0;
    std::optional<T> value;
  };
  static constexpr std::size_t kLeast = 16, kMostKept = 1024;

  std::size_t mask() const noexcept { return slots_.size() - 1; }
  std::size_t index(const Slot* slot) const noexcept { return static_cast<std::size_t>(slot - slots_.data()); }
  const Slot* at(uint64_t call_id) const noexcept {
    if (size_ == 0) return nullptr;
    for (std::size_t i = call_id & mask();; i = (i + 1) & mask()) {
      const Slot& slot = slots_[i];
      if (!slot.value) return nullptr;
      if (slot.call_id == call_id) return &slot;
    }
  }
  void place(uint64_t call_id, T&& value) noexcept {
    std::size_t i = call_id & mask();
    while (slots_[i].value) i = (i + 1) & mask();
    slots_[i].call_id = call_id;
    slots_[i].value.emplace(std::move(value));
  }
  /// Those behind it that would not be found any more move up.
  void vacate(std::size_t hole) noexcept {
    slots_[hole].value.reset();
    if (--size_ == 0) {
      if (slots_.size() > kMostKept) std::vector<Slot>().swap(slots_);  // a burst is over
      return;
    }
    for (std::size_t i = (hole + 1) & mask(); slots_[i].value; i = (i + 1) & mask()) {
      const std::size_t home = slots_[i].call_id & mask();
      if (((i - home) & mask()) < ((i - hole) & mask())) continue;
      slots_[hole].call_id = slots_[i].call_id;
      slots_[hole].value.emplace(std::move(*slots_[i].value));
      slots_[i].value.reset();
      hole = i;
    }
  }
  void grow() {
    std::vector<Slot> before(slots_.empty() ? kLeast : 2 * slots_.size());
    before.swap(slots_);
    for (Slot& slot : before) {
      if (slot.value) place(slot.call_id, std::move(*slot.value));
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
  std::size_t size_ = 0;
};

}  // namespace tendril::rpc::detail
