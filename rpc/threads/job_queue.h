#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tendril/rpc/executor.h"

namespace tendril::rpc::detail {

/// A source of jobs that takes turns with other sources, such as the requests of one peer. It must outlive its queued
/// jobs, and is guarded by the lock of its queue.
class JobSource {
 public:
  JobSource() = default;
  JobSource(const JobSource&) = delete;
  JobSource& operator=(const JobSource&) = delete;

 private:
  friend class JobQueue;
  /// The source's jobs of one level, oldest first.
  struct Lane {
    Job* first = nullptr;
    Job* last = nullptr;
    JobSource* next = nullptr;  // the next source with jobs of this level
    uint64_t turn = 0;          // lower turns run first
  };
  std::array<Lane, Job::kContinuation + 1> lanes_{};
};

/// A queue of waiting jobs. Sources take turns, and so do the levels of a source; each turn runs the oldest job of one
/// level of one source, so a job does not wait for all jobs that another source has queued. A job without a source
/// takes a separate turn, in order of arrival: a continuation waits for at most one job of each source. Intrusive: all
/// links are in the jobs and the sources. Not thread-safe.
class JobQueue {
 public:
  JobQueue() = default;
  ~JobQueue() {
    while (!empty()) pop();
  }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  bool empty() const noexcept { return levels_ == 0; }
  /// Whether there is a job of level `lowest` or above.
  bool any(int lowest) const noexcept { return (levels_ >> lowest) != 0; }
  std::size_t size() const noexcept { return size_; }
  /// Visits all jobs, in no particular order.
  template <class F>
  void for_each(F f) const {
    for (std::size_t level = 0; level < rings_.size(); ++level) {
      for (const JobSource* source = rings_[level].first; source; source = source->lanes_[level].next) {
        for (const Job* job = source->lanes_[level].first; job; job = job->next_) f(*job);
      }
    }
  }
  void push(std::unique_ptr<Job> job) noexcept {
    Job* const added = job.release();
    const auto level = static_cast<std::size_t>(added->level());
    JobSource* const given = added->source();
    JobSource& source = given ? *given : others_;
    JobSource::Lane& lane = source.lanes_[level];
    added->next_ = nullptr;
    if (!given) added->turn_ = ++last_turn_;
    *(lane.first ? &lane.last->next_ : &lane.first) = added;
    const bool first = lane.first == added;
    lane.last = added;
    if (first) line_up(source, level);
    ++size_;
  }
  /// Removes the next job of level `lowest` or above. There must be one.
  std::unique_ptr<Job> pop(int lowest = 0) noexcept {
    std::size_t next = rings_.size();
    for (uint32_t left = levels_ >> lowest << lowest; left != 0; left &= left - 1) {
      const auto level = static_cast<std::size_t>(std::countr_zero(left));
      if (next == rings_.size() || turn_of(level) < turn_of(next)) next = level;
    }
    Ring& ring = rings_[next];
    JobSource& source = *ring.first;
    JobSource::Lane& lane = source.lanes_[next];
    std::unique_ptr<Job> job(lane.first);
    lane.first = job->next_;
    ring.first = lane.next;
    if (!ring.first) levels_ &= ~(uint32_t{1} << next);
    if (lane.first) line_up(source, next);
    --size_;
    return job;
  }

 private:
  struct Ring {
    JobSource* first = nullptr;
    JobSource* last = nullptr;
  };
  uint64_t turn_of(std::size_t level) const noexcept { return rings_[level].first->lanes_[level].turn; }
  void line_up(JobSource& source, std::size_t level) noexcept {
    Ring& ring = rings_[level];
    JobSource::Lane& lane = source.lanes_[level];
    lane.next = nullptr;
    lane.turn = &source == &others_ ? lane.first->turn_ : ++last_turn_;
    *(ring.first ? &ring.last->lanes_[level].next : &ring.first) = &source;
    ring.last = &source;
    levels_ |= uint32_t{1} << level;
  }

  std::array<Ring, Job::kContinuation + 1> rings_{};  // for each level, the sources with jobs of it, by turn
  JobSource others_;                                  // for jobs without a source
  uint32_t levels_ = 0;                               // bit i is set if rings_[i] is not empty
  uint64_t last_turn_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tendril::rpc::detail
