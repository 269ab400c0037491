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

/// Returns the time `timeout` after `now`. Clamps the timeout to 100 years, in either direction, so that no value
/// overflows.
template <class Rep, class Period>
Clock::time_point deadline_after(std::chrono::duration<Rep, Period> timeout, Clock::time_point now = Clock::now()) {
  constexpr std::chrono::hours longest(24 * 365 * 100);
  const std::chrono::duration<double> seconds(timeout);  // a double can represent every duration, if not exactly
  if (seconds > longest) return now + longest;
  if (seconds < -longest) return now - longest;
  return now + std::chrono::duration_cast<Clock::duration>(timeout);
}

/// A wait that takes longer than this prints its reason to stderr.
inline constexpr std::chrono::seconds kFirstNote{5};

/// The served function in which some work began, and its caller. Used in errors.
struct CallOrigin {
  uint64_t agent = 0;                     ///< incarnation of the serving agent; only it knows the other fields
  const std::string* function = nullptr;  ///< the function's name, valid as long as its FunctionTable; null: none
  WorkerId caller = -1;                   ///< the caller's rank; -1: none
  uint64_t call_id = 0;                   ///< the number that the caller gave the call
};

/// State that is passed along with a call. It is captured when a call is made, a continuation is attached, or a
/// coroutine is suspended, and is current again when the callee's handler, the continuation, or the resumed coroutine
/// runs. A value; `current()` belongs to the calling thread.
struct CallContext {
  Clock::time_point deadline = Clock::time_point::max();  ///< inherited by nested calls
  LazyStopToken stop = {};                                ///< triggered if the caller cancels or its connection is lost
  uint64_t autograd_context = 0;                          ///< 0 = none
  uint64_t trace_id = 0, span_id = 0;                     ///< ids of the trace and span (trace.h); 0 = none
  uint8_t depth = 0;  ///< depth of calls made here: length of the chain of waiting handlers; 0 outside handlers
  std::shared_ptr<const std::vector<std::byte>> extension = {};  ///< opaque bytes that an extension has set
  CallOrigin origin = {};                                        ///< the handler that runs here; not sent with calls

  static CallContext& current() noexcept;  ///< the calling thread's context
};

/// Makes a context current until the end of the scope. Holds it by value, because a coroutine may suspend inside the
/// scope and end on a different thread.
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
