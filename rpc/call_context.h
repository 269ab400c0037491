#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tendril/rpc/clock.h"
#include "tendril/rpc/lazy_stop.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// `timeout` from now on. Whoever gave it, no number overflows: more than 100 years (also into the past) are 100 years.
template <class Rep, class Period>
Clock::time_point deadline_after(std::chrono::duration<Rep, Period> timeout, Clock::time_point now = Clock::now()) {
  constexpr std::chrono::hours longest(24 * 365 * 100);
  const std::chrono::duration<double> seconds(timeout);  // a floating-point number holds every duration, if not exactly
  if (seconds > longest) return now + longest;
  if (seconds < -longest) return now - longest;
  return now + std::chrono::duration_cast<Clock::duration>(timeout);
}

/// Whoever waits longer says for whom, on the error output.
inline constexpr std::chrono::seconds kFirstNote{5};

/// The served function that something began in, and who called it: for errors.
struct CallOrigin {
  uint64_t agent = 0;                     ///< the incarnation of the agent that serves it: the others know neither
  const std::string* function = nullptr;  ///< its name, which lives as long as its FunctionTable; null: none
  WorkerId caller = -1;                   ///< its rank; -1: none
  uint64_t call_id = 0;                   ///< the caller's number of the call
};

/// What travels with a call: captured where a call is made, a continuation attached, a coroutine suspended, and
/// current again where the callee's handler, the continuation or the resumed coroutine runs.
/// A value; `current()` is this thread's own.
struct CallContext {
  Clock::time_point deadline = Clock::time_point::max();  ///< nested calls inherit it
  LazyStopToken stop = {};                                ///< the caller cancelled, or its connection is gone
  uint64_t autograd_context = 0;                          ///< 0 = none
  uint64_t trace_id = 0, span_id = 0;                     ///< of a trace (trace.h); 0 = none
  uint8_t depth = 0;  ///< of calls made here: how many handlers wait for them, each for the one before; 0 outside
  std::shared_ptr<const std::vector<std::byte>> extension = {};  ///< opaque bytes of whoever set them
  CallOrigin origin = {};                                        ///< does not travel: the handler that runs here

  static CallContext& current() noexcept;  ///< of the calling thread
};

/// Makes a context current until the end of the scope. By value: one in a coroutine is suspended with it, and may end
/// on another thread than it began.
class CallContextScope {
 public:
  explicit CallContextScope(CallContext context) noexcept;
  ~CallContextScope();
  CallContextScope(const CallContextScope&) = delete;
  CallContextScope& operator=(const CallContextScope&) = delete;

 private:
  CallContext previous_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
