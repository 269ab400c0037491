#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tendril/tensor/cpu/parallel.h"

namespace tendril::cpu {

/// What an element of a kernel that takes exponentials costs, in those of a sum.
inline constexpr int64_t kExponentialCost = 4;

/// A long line in pieces, for several threads. Its length alone says where they are, and what they give is put together
/// in their order: results do not depend on the threads.
class Pieces {
 public:
  static constexpr int64_t kMost = 64;

  /// An element costs as much as `cost` of a sum; `most` pieces, or fewer.
  explicit Pieces(int64_t length, int64_t cost = 1, int64_t most = kMost)
      : length_(length), count_(std::max<int64_t>(1, std::min({length / (2 * grain_of(cost)), most, kMost}))) {}

  int64_t count() const noexcept { return count_; }
  /// Where vectors and lines of a cache begin, if the line does.
  int64_t begin(int64_t i) const noexcept { return i == count_ ? length_ : length_ / count_ * i / 64 * 64; }
  int64_t end(int64_t i) const noexcept { return begin(i + 1); }

  /// f(begin, count) of each, in its place. f must not throw.
  template <class R, class F>
  std::array<R, kMost> of_each(const F& f) const {
    std::array<R, kMost> results{};
    each([&](int64_t i) { results[static_cast<std::size_t>(i)] = f(begin(i), end(i) - begin(i)); });
    return results;
  }
  /// The largest f(begin, count); a NaN is.
  template <class F>
  double largest(const F& f) const {
    const auto of = of_each<double>(f);
    double most = of[0];
    for (std::size_t i = 1; i < static_cast<std::size_t>(count_); ++i) {
      if (of[i] > most || of[i] != of[i]) most = of[i];
    }
    return most;
  }
  /// The sum of f(begin, count).
  template <class F>
  double sum(const F& f) const {
    const auto of = of_each<double>(f);
    double total = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) total += of[i];
    return total;
  }
  /// f(begin, count) of each.
  template <class F>
  void run(const F& f) const {
    each([&](int64_t i) { f(begin(i), end(i) - begin(i)); });
  }
  /// f(i) of each piece i.
  template <class F>
  void each(const F& f) const {
    parallel_for(count_, 1, [&](int64_t first, int64_t past) {
      for (int64_t i = first; i < past; ++i) f(i);
    });
  }

 private:
  int64_t length_, count_;
};

}  // namespace tendril::cpu
