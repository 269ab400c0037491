#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <ctime>

#include "tendril/rpc/call/future_core.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/threads/processor_use.h"
#include "tendril/rpc/threads/thread.h"
#include "tendril/rpc/threads/thread_state.h"

namespace tendril::rpc::detail {

class Loop;

using WaiterHook = boost::intrusive::list_base_hook<>;

/// A thread that waits for a future, on its stack. What it holds is guarded by the loop's mutex.
class Waiter final : public FutureCallback, public WaiterHook {
 public:
  explicit Waiter(Loop& loop) noexcept : loop_(loop) {}
  void run(FutureCore& ready) noexcept override;

  std::atomic<bool> done{false};
  bool leading = false;
  bool next_leader = false;     ///< leadership was handed to it
  bool left_to_others = false;  ///< it stopped leading because there is work for the pool
  Condition wake;

 private:
  Loop& loop_;
};

/// A pool thread.
struct Worker {
  Thread thread;
  Condition wake;
  bool woken = false;       ///< there may be something to do
  bool polls = false;       ///< it looks every poll interval whether nobody leads
  bool stays_back = false;  ///< it has just handed leadership to a waiter
  bool leads = false;
  Slot runs = Slot::none;        ///< a job of this kind; that which waits included
  CallOrigin origin;             ///< of that job
  Clock::time_point since;       ///< when it was begun
  Clock::time_point held_since;  ///< when what is held back by its jobs may have begun to be
  clockid_t processor_time{};    ///< the clock that says how much of it the thread has used
  ProcessorUse use;              ///< whether its job computes
  Ref<Executor> keeps;           ///< the loop, which has been stopped; the thread is left to itself, nobody joins it
};

}  // namespace tendril::rpc::detail
