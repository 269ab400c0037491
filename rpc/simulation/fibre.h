#pragma once

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tendril/rpc/clock.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc::detail {

struct SimulatedWorker;

/// Holds the switched variables of one thread or process while another fibre runs.
class SwitchedValues {
 public:
  explicit SwitchedValues(tendril::detail::SwitchedVariable::Of of) noexcept : of_(of) {}
  /// Copies the values into the variables. The first call constructs initial values in place instead.
  void load();
  void save();     ///< Copies the values back. The variables must not be used before the next `load`.
  void destroy();  ///< Destroys the loaded values. The next `load` constructs new ones.

 private:
  const tendril::detail::SwitchedVariable::Of of_;
  std::vector<std::byte> bytes_;  // values of all variables, in list order; empty: not constructed
};

/// A pool of fibre stacks of 8 MiB, the usual size of a thread's stack, each with a guard page below it. The system
/// assigns memory only to pages that have been used.
class FibreStacks {
 public:
  FibreStacks() = default;
  ~FibreStacks();
  FibreStacks(const FibreStacks&) = delete;
  FibreStacks& operator=(const FibreStacks&) = delete;

  boost::context::stack_context take();  ///< throws std::system_error
  void give_back(const boost::context::stack_context& stack);

 private:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;
  std::vector<void*> free_;
};

/// One simulated thread. `resume` runs it until its function returns or calls `pause`.
class Fibre {
 public:
  Fibre(FibreStacks& stacks, SimulatedWorker& worker, uint64_t number, std::string name, std::function<void()> body);
  /// Keeps a fibre that will not end until the process does, because nothing can unwind its stack.
  static void abandon(std::unique_ptr<Fibre> fibre);
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  void resume();
  void pause();  ///< called by the fibre itself
  bool ended() const noexcept { return ended_; }

  SimulatedWorker& worker;
  const uint64_t number;  ///< within the simulation
  const std::string name;
  SwitchedValues values{tendril::detail::SwitchedVariable::Of::thread};

  // Used by the scheduler.
  bool runnable = false;
  bool stalled = false;  ///< it must not run
  bool held = false;     ///< it could run, but is stalled
  bool detached = false;
  int in_simulator = 0;        ///< nesting depth of calls into the simulator, whose allocations do not fail
  bool in_time = true;         ///< whether the last wait ended before its deadline
  const char* waits_for = "";  ///< description of the current wait
  const void* waits_on = nullptr;
  Fibre* joiner = nullptr;
  Clock::time_point deadline{};  ///< of the current wait, by its worker's clock
  Clock::time_point timer{};     ///< the same by the world's clock, if it is among the sleepers

 private:
  struct Switch;  // annotations for AddressSanitizer

  void run();

  std::function<void()> body_;
  boost::context::fiber self_, caller_;  // suspended contexts
  bool ended_ = false;
  void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
  const void* caller_bottom_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

}  // namespace tendril::rpc::detail
