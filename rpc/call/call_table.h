#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tendril::rpc::detail {

/// Maps call IDs, which are assigned in increasing order, to values. The values are stored densely in a vector whose
/// places are reused, and hash chains through the vector lead to them. Consecutive IDs belong to different chains, so
/// each operation takes constant time however many calls there are, and moves no other call. Once the vector is large
/// enough, inserting and taking a call allocates nothing. Not thread-safe.
template <class T>
class CallTable {
 public:
  using Place = uint32_t;
  static constexpr Place kNowhere = UINT32_MAX;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  bool contains(uint64_t call_id) const noexcept { return place_of(call_id) != kNowhere; }
  /// Returns null if the call is not in the table. The pointer is valid until the table changes.
  T* find(uint64_t call_id) noexcept {
    const Place place = place_of(call_id);
    return place == kNowhere ? nullptr : &*slots_[place].value;
  }
  /// `call_id` must not be in the table yet. Returns the call's place, which does not change until the call is taken.
  /// If this throws, the table and `value` are unchanged.
  Place insert(uint64_t call_id, T&& value) {
    if (free_ == kNowhere && slots_.size() == first_.size()) grow();
    Place place = free_;
    if (place == kNowhere) {
      place = static_cast<Place>(slots_.size());
      slots_.emplace_back();
    } else {
      free_ = slots_[place].next;
    }
    Slot& slot = slots_[place];
    slot.call_id = call_id;
    slot.value.emplace(std::move(value));
    Place& first = first_of(call_id);
    slot.next = first;
    first = place;
    ++size_;
    return place;
  }
  T& at(Place place) noexcept { return *slots_[place].value; }
  uint64_t number(Place place) const noexcept { return slots_[place].call_id; }
  std::optional<T> take(uint64_t call_id) noexcept {
    std::optional<T> taken;
    if (size_ == 0) return taken;
    for (Place* link = &first_of(call_id); *link != kNowhere; link = &slots_[*link].next) {
      const Place place = *link;
      Slot& slot = slots_[place];
      if (slot.call_id != call_id) continue;
      taken.emplace(std::move(*slot.value));
      slot.value.reset();
      *link = slot.next;
      slot.next = free_;
      free_ = place;
      if (--size_ == 0 && slots_.size() > kMostKept) CallTable().swap(*this);  // a burst is over
      return taken;
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
    first_.swap(other.first_);
    std::swap(free_, other.free_);
    std::swap(size_, other.size_);
  }

 private:
  struct Slot {
    uint64_t call_id = 0;
    Place next = kNowhere;  // in the same chain, or in the list of free places
    std::optional<T> value = {};
  };
  static constexpr std::size_t kLeast = 16, kMostKept = 1024;

  Place& first_of(uint64_t call_id) noexcept { return first_[call_id & (first_.size() - 1)]; }
  Place place_of(uint64_t call_id) const noexcept {
    if (size_ == 0) return kNowhere;
    Place place = first_[call_id & (first_.size() - 1)];
    while (place != kNowhere && slots_[place].call_id != call_id) place = slots_[place].next;
    return place;
  }
  /// Requires that all slots are in use.
  void grow() {
    const std::size_t size = std::max(kLeast, 2 * first_.size());
    std::vector<Place> first(size, kNowhere);
    slots_.reserve(size);
    first_.swap(first);
    for (Place place = 0; place < slots_.size(); ++place) {
      Place& of_chain = first_of(slots_[place].call_id);
      slots_[place].next = of_chain;
      of_chain = place;
    }
  }

  std::vector<Slot> slots_;   // at most as many as there are chains
  std::vector<Place> first_;  // the first place of each chain; the size is a power of two
  Place free_ = kNowhere;
  std::size_t size_ = 0;
};

}  // namespace tendril::rpc::detail
