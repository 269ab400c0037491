#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tendril/rpc/clock.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/mutex.h"  // a forward declaration would give its functions hidden visibility

namespace tendril::rpc {

namespace detail {

class Network;
class Poller;

/// The functions of the operating system that a simulation replaces (docs/simulation.md). All fibres run in one
/// thread, one at a time. A function that waits lets other fibres run.
class Simulator {
 public:
  virtual Clock::time_point now() noexcept = 0;
  virtual void sleep_until(Clock::time_point when) = 0;
  virtual uint64_t random_bits() = 0;
  virtual std::chrono::nanoseconds run_time() noexcept = 0;  ///< how long a job is likely to take (system/run_time.h)

  // Identifies a fibre.
  using Fibre = void*;
  virtual Fibre start(std::function<void()> body, const std::string& name) = 0;
  virtual void join(Fibre fibre) = 0;
  virtual void detach(Fibre fibre) = 0;
  virtual Fibre current() noexcept = 0;

  virtual void lock(Mutex& mutex) = 0;
  virtual void unlocked(Mutex& mutex) noexcept = 0;
  /// Unlocks the mutex while waiting. Returns false if the deadline passed.
  virtual bool wait(Condition& condition, Mutex& mutex, Clock::time_point deadline) = 0;
  virtual void notify(Condition& condition, bool all) noexcept = 0;
  /// For locks that spin or sleep on a word: lets other fibres run until `wake(word)`; may return early.
  virtual void wait(const void* word) noexcept = 0;
  virtual void wake(const void* word) noexcept = 0;

  virtual std::unique_ptr<Poller> make_poller() = 0;
  virtual Network& network() = 0;

  virtual void log(LogLevel level, std::string_view worker, std::string_view text) noexcept = 0;

 protected:
  ~Simulator() = default;
};

}  // namespace detail
}  // namespace tendril::rpc
