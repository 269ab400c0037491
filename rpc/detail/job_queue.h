#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "tendril/rpc/executor.h"

namespace tendril::rpc::detail {

/// First in, first out; the links are in the jobs. Not thread-safe.
class JobQueue {
 public:
  JobQueue() = default;
  ~JobQueue() {
    while (!empty()) pop();
  }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }
  std::size_t size() const noexcept { return size_; }
  const Job* front() const noexcept { return first_; }
  void push(std::unique_ptr<Job> job) noexcept {
    Job* const added = job.release();
    added->next_ = nullptr;
    *last_ = added;
    last_ = &added->next_;
    ++size_;
  }
  std::unique_ptr<Job> pop() noexcept {
    std::unique_ptr<Job> job(first_);
    first_ = job->next_;
    if (!first_) last_ = &first_;
    --size_;
    return job;
  }

 private:
  Job* first_ = nullptr;
  Job** last_ = &first_;
  std::size_t size_ = 0;
};

}  // namespace tendril::rpc::detail
