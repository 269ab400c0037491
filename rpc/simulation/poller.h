#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>

#include "tendril/rpc/simulation/world.h"
#include "tendril/rpc/threads/poller.h"

namespace tendril::rpc::detail {

class SimulatedPoller;

/// Base of the objects that a poller can watch.
class SimulatedDescriptor {
 public:
  explicit SimulatedDescriptor(SimulatedWorker& worker);
  virtual ~SimulatedDescriptor();
  SimulatedDescriptor(const SimulatedDescriptor&) = delete;
  SimulatedDescriptor& operator=(const SimulatedDescriptor&) = delete;

  int number() const noexcept { return number_; }
  SimulatedWorker& worker() const noexcept { return worker_; }
  virtual uint32_t ready() const = 0;  ///< epoll event bits
  /// Notifies the poller, if it watches one of these event bits.
  void report(uint32_t events);

 private:
  friend class SimulatedPoller;

  SimulatedWorker& worker_;
  int number_;
  SimulatedPoller* poller_ = nullptr;
};

/// Polls simulated descriptors. Edge-triggered, as Reactor requires.
class SimulatedPoller final : public Poller {
 public:
  SimulatedPoller(World& world, SimulatedWorker& worker) : world_(world), worker_(worker) {}
  ~SimulatedPoller() override;

  void add(int descriptor, uint32_t events) override;
  void change(int descriptor, uint32_t events) noexcept override;
  void remove(int descriptor) noexcept override;
  int wait(std::span<epoll_event> events, Clock::time_point deadline) noexcept override;
  void wake() noexcept override;

  void report(int descriptor, uint32_t events);
  void forget(int descriptor);

 private:
  struct Watched {
    SimulatedDescriptor* what;
    uint32_t events;
    uint32_t pending = 0;  ///< nonzero: it is in `ready_`
  };
  World& world_;
  SimulatedWorker& worker_;
  std::map<int, Watched> watched_;
  std::deque<int> ready_;
  bool woken_ = false;
};

}  // namespace tendril::rpc::detail
