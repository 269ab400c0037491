#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// A binary min-heap of call deadlines. A call is identified by its place in a CallTable. `moved(place, position)`
/// reports the call's position in the heap whenever it changes, so that the deadline of a call that ends early can be
/// removed. Adding the latest deadline and removing it again takes constant time; all other changes take logarithmic
/// time. Not thread-safe.
class Deadlines {
 public:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  bool empty() const noexcept { return entries_.empty(); }
  Clock::time_point earliest() const noexcept {
    return entries_.empty() ? Clock::time_point::max() : entries_.front().when;
  }
  uint32_t place_of_earliest() const noexcept { return entries_.front().place; }

  /// Makes room for one deadline, so that the next `add` does not throw.
  void reserve_one() {
    if (entries_.size() == entries_.capacity()) entries_.reserve(entries_.empty() ? 16 : 2 * entries_.size());
  }
  template <class Moved>
  void add(Clock::time_point when, uint32_t place, const Moved& moved) {
    entries_.push_back({when, place});
    rise(entries_.size() - 1, moved);
  }
  template <class Moved>
  void remove(uint32_t position, const Moved& moved) noexcept {
    const Entry last = entries_.back();
    entries_.pop_back();
    if (position == entries_.size()) {
      if (entries_.empty() && entries_.capacity() > kMostKept) std::vector<Entry>().swap(entries_);
      return;
    }
    entries_[position] = last;
    if (rise(position, moved) == position) sink(position, moved);
  }

 private:
  struct Entry {
    Clock::time_point when;
    uint32_t place;
  };
  static constexpr std::size_t kMostKept = 1024;

  template <class Moved>
  void put(std::size_t position, const Entry& entry, const Moved& moved) noexcept {
    entries_[position] = entry;
    moved(entry.place, static_cast<uint32_t>(position));
  }
  template <class Moved>
  std::size_t rise(std::size_t position, const Moved& moved) noexcept {
    const Entry entry = entries_[position];
    while (position > 0 && entry.when < entries_[(position - 1) / 2].when) {
      put(position, entries_[(position - 1) / 2], moved);
      position = (position - 1) / 2;
    }
    put(position, entry, moved);
    return position;
  }
  template <class Moved>
  void sink(std::size_t position, const Moved& moved) noexcept {
    const Entry entry = entries_[position];
    for (;;) {
      std::size_t child = 2 * position + 1;
      if (child >= entries_.size()) break;
      if (child + 1 < entries_.size() && entries_[child + 1].when < entries_[child].when) ++child;
      if (entry.when <= entries_[child].when) break;
      put(position, entries_[child], moved);
      position = child;
    }
    put(position, entry, moved);
  }

  std::vector<Entry> entries_;
};

}  // namespace tendril::rpc::detail
