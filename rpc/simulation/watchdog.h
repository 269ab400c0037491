#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace tendril::rpc::detail {

/// Ends the process, with a message that names the thread, if one step of a simulation takes too long by the real
/// clock: the step waits for something outside the simulation, or never ends. It runs in a separate thread.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds longest_step);  ///< 0: does nothing
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Records that a step of this simulated thread begins.
  void step(int rank, const std::string& thread);

 private:
  void watch();

  const std::chrono::seconds longest_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  uint64_t steps_ = 0;
  int rank_ = 0;
  std::string name_;
  std::thread thread_;
};

}  // namespace tendril::rpc::detail
