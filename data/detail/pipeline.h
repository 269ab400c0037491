#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tendril::data::detail {

/// Makes things that have numbers on threads of its own, ahead of the one who takes them, and hands them out in order.
/// Without threads each is made when it is taken.
///
/// Thread-safety: one thread takes.
class Pipeline {
 public:
  using Item = std::shared_ptr<void>;
  using Make = std::function<Item(int64_t number)>;  ///< on several threads at a time; may throw

  /// `ahead`: how many may be made or under way before they are taken. `timeout`: how long to wait for one.
  Pipeline(int workers, int64_t ahead, std::chrono::milliseconds timeout);
  /// Waits for what is under way, at most one thing a thread.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// From now on number `first` and so on, up to below `end`. What was to be made before is dropped, without waiting.
  void start(Make make, int64_t first, int64_t end);
  bool at_end() const { return taken_ == end_; }
  int64_t next_number() const { return taken_; }
  /// The next one. Throws what `make` threw for it, and Error after the timeout; either way it is not taken, and the
  /// pipeline is to be started again.
  Item take();

 private:
  struct Slot {
    Item item;
    std::exception_ptr error;
    bool ready = false;
  };

  void work();
  void stop();
  Slot& slot(int64_t number) { return slots_[static_cast<std::size_t>(number % room_)]; }

  const int64_t room_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable wanted_, ready_;
  std::shared_ptr<const Make> make_;  // another object for each start; null: nothing to do
  int64_t started_ = 0, taken_ = 0,
          end_ = 0;  // numbers: given to a worker, handed out; `taken_` and `end_` are the taker's
  std::vector<Slot> slots_;
  bool stopping_ = false;
  std::vector<std::jthread> workers_;
};

}  // namespace tendril::data::detail
