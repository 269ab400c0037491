#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <ctime>

#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/threads/future_core.h"
#include "tendril/rpc/threads/processor_use.h"

namespace tendril::rpc::detail {

class Loop;

using WaiterHook = boost::intrusive::list_base_hook<>;

/// A thread that waits for a future. Lives on that thread's stack; guarded by the loop's mutex.
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
  bool woken = false;          ///< it was woken, because there may be something to do
  bool polls = false;          ///< it checks every poll interval whether the loop has a leader
  bool skips_leading = false;  ///< it has just handed leadership to a waiter
  bool leads = false;
  Slot runs = Slot::none;        ///< the kind of its current job, even while that job waits
  CallOrigin origin;             ///< origin of that job
  Clock::time_point since;       ///< start of that job
  Clock::time_point held_since;  ///< earliest time at which its jobs may have begun to hold frames back
  clockid_t processor_time{};    ///< clock of the processor time that the thread has used
  ProcessorUse use;              ///< whether its job computes
  Ref<Executor> keeps;           ///< the stopped loop, if the thread is detached instead of joined
};

}  // namespace tendril::rpc::detail
