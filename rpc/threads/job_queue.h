#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tendril/rpc/executor.h"

namespace tendril::rpc::detail {

/// First in, first out among the jobs whose level may start; the links are in the jobs. Not thread-safe.
class JobQueue {
 public:
  JobQueue() = default;
  ~JobQueue() {
    while (!empty()) pop();
  }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  bool empty() const noexcept { return levels_ == 0; }
  /// Whether there is a job of this level or above.
  bool any(int lowest) const noexcept { return (levels_ >> lowest) != 0; }
  std::size_t size() const noexcept { return size_; }
  /// In no particular order.
  template <class F>
  void for_each(F f) const {
    for (const List& list : lists_) {
      for (const Job* job = list.first; job; job = job->next_) f(*job);
    }
  }
  void push(std::unique_ptr<Job> job) noexcept {
    Job* const added = job.release();
    const int level = added->level();
    List& list = lists_[static_cast<std::size_t>(level)];
    added->next_ = nullptr;
    added->number_ = ++last_number_;
    *(list.first ? &list.last->next_ : &list.first) = added;
    list.last = added;
    levels_ |= uint32_t{1} << level;
    ++size_;
  }
  /// The oldest of the jobs of this level or above, of which there is one.
  std::unique_ptr<Job> pop(int lowest = 0) noexcept {
    int oldest = -1;
    for (uint32_t left = levels_ >> lowest << lowest; left != 0; left &= left - 1) {
      const int level = std::countr_zero(left);
      if (oldest < 0 || first(level)->number_ < first(oldest)->number_) oldest = level;
    }
    List& list = lists_[static_cast<std::size_t>(oldest)];
    std::unique_ptr<Job> job(list.first);
    list.first = job->next_;
    if (!list.first) levels_ &= ~(uint32_t{1} << oldest);
    --size_;
    return job;
  }

 private:
  struct List {
    Job* first = nullptr;
    Job* last = nullptr;
  };
  const Job* first(int level) const noexcept { return lists_[static_cast<std::size_t>(level)].first; }

  std::array<List, Job::kContinuation + 1> lists_{};
  uint32_t levels_ = 0;  // bits: the lists that are not empty
  uint64_t last_number_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tendril::rpc::detail
