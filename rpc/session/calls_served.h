#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "tendril/rpc/call/call_filter.h"
#include "tendril/rpc/call/call_table.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/threads/short_mutex.h"

namespace tendril::rpc::detail {

/// A request that has been received and not answered yet.
struct CallServed {
  LazyStopSource stop = {};
  uint64_t function = 0;
  Clock::time_point received = {};
  bool dispatched = false;  // its references are confirmed
};

/// The server's half of a session: the requests that have arrived, and those that have not been answered yet. Each is
/// served once. Thread-safe. Independent of the connection and the clock.
class CallsServed {
 public:
  /// Adds a request that has arrived and returns its stop token, on which stop has been requested already if a cancel
  /// arrived first. Returns nothing if the request must not be served: it was withdrawn, has arrived before, or the
  /// session has ended.
  std::optional<LazyStopToken> admit(uint64_t call_id, CallServed&& call);
  /// Records that the request's references are confirmed, and returns its stop token. If the request must not be served
  /// any more, the token can never be stopped (stop_possible() is false).
  LazyStopToken dispatch(uint64_t call_id);

  /// Takes the call out. The thread that does so must answer the call or drop it.
  std::optional<CallServed> take(uint64_t call_id);
  /// Puts a call back that could not be answered after all.
  void put_back(uint64_t call_id, CallServed&& call);
  /// Requests stop on the request's token, now or when the request arrives.
  void cancel(uint64_t call_id);
  RequestStatus withdraw(uint64_t call_id);

  /// Holds a request back while `congested` returns true. `congested` is called under the lock that `take_held` also
  /// takes, so that no request is left behind. Returns true if the request was taken.
  bool hold(std::unique_ptr<Job>& request, const std::function<bool()>& congested);
  std::vector<std::unique_ptr<Job>> take_held();

  /// Requests stop on all tokens and forgets the calls; none is admitted after that. Returns the requests that were
  /// held back.
  std::vector<std::unique_ptr<Job>> end();

  std::size_t size() const;
  /// `held`: whether the request is held back. `f` must not use this object.
  void for_each(const std::function<void(uint64_t, const CallServed&, bool held)>& f) const;

 private:
  mutable ShortMutex mutex_;
  bool ended_ = false;
  CallFilter filter_;
  CallTable<CallServed> calls_;
  std::set<uint64_t> overtaken_;  // cancelled before they arrived
  std::vector<std::unique_ptr<Job>> held_;
};

}  // namespace tendril::rpc::detail
