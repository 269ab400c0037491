#include "tendril/rpc/simulation/poller.h"

#include <algorithm>
#include <utility>

namespace tendril::rpc::detail {

namespace {
/// The open descriptors of all workers, for SimulatedPoller::add.
std::map<std::pair<SimulatedWorker*, int>, SimulatedDescriptor*>& all_open() {
  static std::map<std::pair<SimulatedWorker*, int>, SimulatedDescriptor*> open;
  return open;
}
}  // namespace

SimulatedDescriptor::SimulatedDescriptor(SimulatedWorker& worker) : worker_(worker) {
  auto& taken = worker.descriptors;
  if (taken.empty()) taken.assign(3, true);
  const auto free = std::find(taken.begin(), taken.end(), false);
  number_ = static_cast<int>(free - taken.begin());
  if (free == taken.end()) {
    taken.push_back(true);
  } else {
    *free = true;
  }
  all_open()[{&worker, number_}] = this;
}

SimulatedDescriptor::~SimulatedDescriptor() {
  all_open().erase({&worker_, number_});
  if (poller_ != nullptr) poller_->forget(number_);
  worker_.descriptors[static_cast<std::size_t>(number_)] = false;
}

void SimulatedDescriptor::report(uint32_t events) {
  if (poller_ != nullptr) poller_->report(number_, events);
}

SimulatedPoller::~SimulatedPoller() {
  for (auto& [number, watched] : watched_) watched.what->poller_ = nullptr;
}

void SimulatedPoller::add(int descriptor, uint32_t events) {
  const World::InSimulator inside(world_);
  SimulatedDescriptor* const what = all_open().at({&worker_, descriptor});
  what->poller_ = this;
  watched_[descriptor] = {what, events};
  report(descriptor, what->ready());
}

void SimulatedPoller::change(int descriptor, uint32_t events) noexcept {
  const auto found = watched_.find(descriptor);
  if (found == watched_.end()) return;
  found->second.events = events;
  report(descriptor, found->second.what->ready());
}

void SimulatedPoller::remove(int descriptor) noexcept {
  const auto found = watched_.find(descriptor);
  if (found != watched_.end()) found->second.what->poller_ = nullptr;
  forget(descriptor);
}

void SimulatedPoller::forget(int descriptor) {
  watched_.erase(descriptor);
  std::erase(ready_, descriptor);
}

void SimulatedPoller::report(int descriptor, uint32_t events) {
  const World::InSimulator inside(world_);
  const auto found = watched_.find(descriptor);
  if (found == watched_.end()) return;
  events &= found->second.events | EPOLLERR | EPOLLHUP;
  if (events == 0) return;
  if (found->second.pending == 0) ready_.push_back(descriptor);
  found->second.pending |= events;
  world_.wake_all(this);
}

int SimulatedPoller::wait(std::span<epoll_event> events, Clock::time_point deadline) noexcept {
  if (ready_.empty() && !woken_ && deadline != Clock::time_point::min() && deadline > world_.now())
    world_.block(this, deadline, "messages and timers");
  woken_ = false;
  int count = 0;
  while (!ready_.empty() && static_cast<std::size_t>(count) < events.size()) {
    epoll_event& event = events[static_cast<std::size_t>(count++)];
    event = {};
    event.data.fd = ready_.front();
    event.events = std::exchange(watched_.at(ready_.front()).pending, 0);
    ready_.pop_front();
  }
  return count;
}

void SimulatedPoller::wake() noexcept {
  woken_ = true;
  world_.wake_all(this);
}

}  // namespace tendril::rpc::detail
