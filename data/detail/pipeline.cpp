#include "tendril/data/detail/pipeline.h"

#include <algorithm>
#include <utility>

#include "tendril/tensor/error.h"
#include "tendril/tensor/threads.h"

namespace tendril::data::detail {

Pipeline::Pipeline(int workers, int64_t ahead, std::chrono::milliseconds timeout)
    : room_(ahead), timeout_(timeout), slots_(static_cast<std::size_t>(ahead)) {
  workers_.reserve(static_cast<std::size_t>(workers));
  try {
    for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();  // those that there are: the system gives no more
    throw;
  }
}

Pipeline::~Pipeline() { stop(); }

void Pipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  workers_.clear();  // joins
}

void Pipeline::start(Make make, int64_t first, int64_t end) {
  std::vector<Slot> dropped(static_cast<std::size_t>(room_));  // destroyed without the lock
  std::shared_ptr<const Make> before = std::make_shared<const Make>(std::move(make));
  {
    const std::lock_guard lock(mutex_);
    slots_.swap(dropped);
    make_.swap(before);
    started_ = taken_ = first;
    end_ = end;
  }
  wanted_.notify_all();
}

Pipeline::Item Pipeline::take() {
  if (workers_.empty()) {
    Item item = (*make_)(taken_);
    ++taken_;
    return item;
  }
  Slot taken;
  {
    std::unique_lock lock(mutex_);
    const bool came = ready_.wait_for(lock, timeout_, [this] { return slot(taken_).ready; });
    TENDRIL_CHECK(came, "DataLoader: batch ", taken_, " did not come within ", timeout_.count(),
                  " ms (timeout): the dataset still makes its examples");
    taken = std::exchange(slot(taken_), {});
    if (!taken.error) ++taken_;
  }
  if (taken.error) std::rethrow_exception(std::move(taken.error));
  wanted_.notify_one();
  return std::move(taken.item);
}

void Pipeline::work() {
  const ThreadLimit one(1);  // there are several of these
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [&] { return stopping_ || (make_ && started_ < std::min(end_, taken_ + room_)); });
    if (stopping_) return;
    std::shared_ptr<const Make> make = make_;
    const int64_t number = started_++;
    lock.unlock();
    Slot made;
    try {
      made.item = (*make)(number);
    } catch (...) {
      made.error = std::current_exception();
    }
    made.ready = true;
    lock.lock();
    const bool still_wanted = make == make_;
    if (still_wanted) slot(number) = std::move(made);
    lock.unlock();
    if (still_wanted) ready_.notify_one();
    made = {};
    make.reset();
    lock.lock();
  }
}

}  // namespace tendril::data::detail
