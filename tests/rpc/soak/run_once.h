#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace soak {

/// Identifies a call by its caller, the caller's generation, and its number among that caller's calls of the callee.
struct CallId {
  int caller = -1;
  int generation = 0;
  uint64_t number = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& caller& generation& number;
  }
};

/// Records which calls a worker has run. Remembers the last kWindow calls of each caller, which is more than a caller
/// can have pending, so its memory does not grow. Thread-safe.
class RunLog {
 public:
  static constexpr uint64_t kWindow = 1 << 15;
  enum class Run { first, again, too_old };

  Run note(const CallId& id) {
    const std::lock_guard lock(mutex_);
    std::erase_if(windows_, [&](const auto& entry) {  // sessions of earlier generations ended long ago
      return entry.first.first == id.caller && entry.first.second + 2 < id.generation;
    });
    return windows_[{id.caller, id.generation}].note(id.number);
  }
  /// How often each of these calls has run: 0 or 1, or -1 if it is too old to be remembered.
  std::vector<int> runs(int caller, int generation, const std::vector<uint64_t>& numbers) const {
    std::vector<int> result;
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find({caller, generation});
    for (const uint64_t number : numbers) result.push_back(found == windows_.end() ? 0 : found->second.runs(number));
    return result;
  }

 private:
  struct Window {
    Run note(uint64_t number) {
      if (number > highest) {
        if (number - highest >= kWindow) run.reset();
        for (uint64_t n = highest + 1; n < number && number - highest < kWindow; ++n) run.reset(n % kWindow);
        highest = number;
        run.set(number % kWindow);
        return Run::first;
      }
      if (highest - number >= kWindow) return Run::too_old;
      if (run.test(number % kWindow)) return Run::again;
      run.set(number % kWindow);
      return Run::first;
    }
    int runs(uint64_t number) const {
      if (number > highest) return 0;
      return highest - number >= kWindow ? -1 : static_cast<int>(run.test(number % kWindow));
    }

    uint64_t highest = 0;
    std::bitset<kWindow> run;
  };

  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, Window> windows_;
};

/// A caller's knowledge of its calls of one callee, to be compared with the callee's log.
struct Claims {
  int generation = -1;  ///< the callee's
  std::vector<uint64_t> numbers = {};
  std::vector<int> runs = {};  ///< 1: it returned a result; 0: its error says that it did not run

  void add(int callee_generation, uint64_t number, int expected) {
    if (callee_generation != generation) *this = {.generation = callee_generation};
    numbers.push_back(number);
    runs.push_back(expected);
  }
};

}  // namespace soak
