#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

namespace tendril::cuda {

/// Of a key that is an array of words.
struct WordsHash {
  template <std::size_t N>
  std::size_t operator()(const std::array<int64_t, N>& key) const noexcept {  // FNV-1a, by words
    uint64_t hash = 14695981039346656037u;
    for (const int64_t word : key) hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u;
    return static_cast<std::size_t>(hash ^ (hash >> 32));
  }
};

/// The `capacity` (> 0) values that were used last, by key. Not thread-safe. References stay valid until the value is
/// dropped, which `get` does to others than the one it returns.
template <class Key, class Value, class Hash = std::hash<Key>>
class Lru {
 public:
  explicit Lru(std::size_t capacity) : capacity_(capacity) {}

  /// The key's value, which becomes the last used; `make()` if there is none, and nothing changes if that throws.
  template <class Make>
  Value& get(const Key& key, Make make) {
    if (const auto found = places_.find(key); found != places_.end()) {
      items_.splice(items_.begin(), items_, found->second);
      return items_.front().second;
    }
    items_.emplace_front(key, make());
    try {
      places_.emplace(key, items_.begin());
    } catch (...) {
      items_.pop_front();
      throw;
    }
    if (items_.size() > capacity_) {
      places_.erase(items_.back().first);
      items_.pop_back();
    }
    return items_.front().second;
  }
  /// The key has no value any more.
  void drop(const Key& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    items_.erase(found->second);
    places_.erase(found);
  }
  std::size_t size() const noexcept { return items_.size(); }

 private:
  using Items = std::list<std::pair<Key, Value>>;

  std::size_t capacity_;
  Items items_;  // the last used first
  std::unordered_map<Key, typename Items::iterator, Hash> places_;
};

}  // namespace tendril::cuda
