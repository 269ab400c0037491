#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "tendril/rpc/call/call_table.h"
#include "tendril/rpc/executor.h"
#include "tendril/rpc/session/agent_listener.h"
#include "tendril/rpc/threads/short_mutex.h"

namespace tendril::rpc::detail {

/// A request received and not yet answered.
struct CallServed {
  LazyStopSource stop = {};
  uint64_t function = 0;
  Clock::time_point received = {};
  bool dispatched = false;  // its references are confirmed
};

/// The server's half of a session: which requests have come, and which of them await their answers. Each is served
/// once. Thread-safe; knows no connection and no clock.
class CallsServed {
 public:
  /// A request has come. Its stop token, set off already if the request was cancelled before it came; nothing: it is
  /// not to be served, because it was withdrawn, came before, or the session has ended.
  std::optional<LazyStopToken> admit(uint64_t call_id, CallServed&& call);
  /// Its references are confirmed. One that nothing stops: it is not to be served any more.
  LazyStopToken dispatch(uint64_t call_id);

  /// Whoever takes a call out answers it, or drops it.
  std::optional<CallServed> take(uint64_t call_id);
  /// It could not be answered after all.
  void put_back(uint64_t call_id, CallServed&& call);
  /// Sets off the request's stop token, now or when it comes.
  void cancel(uint64_t call_id);
  RequestStatus withdraw(uint64_t call_id);

  /// Keeps a request from starting for as long as `congested`, which is asked again under the lock that `take_held`
  /// takes: one of the two sees what the other did. True: it was taken.
  bool hold(std::unique_ptr<Job>& request, const std::function<bool()>& congested);
  std::vector<std::unique_ptr<Job>> take_held();

  /// Sets off all stop tokens and forgets the calls; none is admitted after that. The requests that were held.
  std::vector<std::unique_ptr<Job>> end();

  std::size_t size() const;
  /// `held`: the numbers of those that do not start yet. `f` must not come back here.
  void for_each(const std::function<void(uint64_t, const CallServed&, bool held)>& f) const;

 private:
  mutable ShortMutex mutex_;
  bool ended_ = false;
  CallFilter filter_;
  CallTable<CallServed> calls_;
  std::set<uint64_t> overtaken_;  // cancelled before they came
  std::vector<std::unique_ptr<Job>> held_;
};

}  // namespace tendril::rpc::detail
