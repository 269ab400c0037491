#pragma once

#include <memory>
#include <vector>

namespace tendril::rpc::detail {

/// A link that can hold writes back.
class BatchedLink {
 public:
  virtual void flush() noexcept = 0;

 protected:
  ~BatchedLink() = default;
};

/// This thread's held-back writes, so that replies to requests that were read together leave together. The pool
/// holds while it runs short handlers one after the other, and flushes before anything that may take long.
class WriteBatch {
 public:
  static WriteBatch& current() noexcept {
    thread_local WriteBatch batch;
    return batch;
  }

  void hold(bool on) noexcept { holding_ = on; }
  bool holding() const noexcept { return holding_; }
  /// `link` has something to flush.
  void add(std::shared_ptr<BatchedLink> link) { links_.push_back(std::move(link)); }
  /// Writes everything out and holds no longer.
  void flush() noexcept {
    holding_ = false;
    while (!links_.empty()) {
      const std::shared_ptr<BatchedLink> link = std::move(links_.back());
      links_.pop_back();
      link->flush();
    }
  }

 private:
  bool holding_ = false;
  std::vector<std::shared_ptr<BatchedLink>> links_;
};

}  // namespace tendril::rpc::detail
