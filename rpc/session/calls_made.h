#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call/call_table.h"
#include "tendril/rpc/call/deadlines.h"
#include "tendril/rpc/call/pending_call.h"
#include "tendril/rpc/system/counters.h"
#include "tendril/rpc/threads/short_mutex.h"

namespace tendril::rpc::detail {

class Session;

/// The callback of the caller's stop token: cancels the call.
struct CancelCall {
  std::weak_ptr<Session> session;
  uint64_t call_id;
  void operator()() const noexcept;
};
using CancelCallback = std::stop_callback<CancelCall>;

/// A call that waits for its reply.
struct CallMade {
  OpenCall open;  // first, so that it is destroyed last
  PendingCallRef call = {};
  uint64_t function = 0;
  Clock::time_point started = {}, deadline = {};
  bool* leaving = nullptr;  // set while its references are being registered; becomes true if the call is cancelled
  std::unique_ptr<CancelCallback> stop = {};
  std::shared_ptr<SentTensors> tensors = {};         // null: the request has none
  uint64_t span = 0;                                 // 0: not traced
  uint32_t deadline_position = Deadlines::kNowhere;  // in CallsMade::deadlines_
};

/// The caller's half of a session: the calls that wait for their replies. The thread that takes a call out must
/// complete it. Thread-safe. Independent of the connection and the clock.
class CallsMade {
 public:
  /// Adds the call and returns its ID: 1, 2, 3, ... If the session has ended, returns 0 and leaves `call` untouched.
  uint64_t enter(CallMade&& call);
  /// Keeps the callback of the call's stop token until the call ends. Destroys it at once if the call has ended
  /// already.
  void watch(uint64_t call_id, std::unique_ptr<CancelCallback> stop);
  /// Called before the references of a request are registered. Returns false if the call has ended. `cancelled` becomes
  /// true if the call is cancelled before `end_leaving`; the sender must then notify the peer.
  bool begin_leaving(uint64_t call_id, bool& cancelled);
  /// Called afterwards.
  void end_leaving(uint64_t call_id);

  /// Takes the call out. `cancelled`: it ends without a reply while the session lives.
  std::optional<CallMade> take(uint64_t call_id, bool cancelled = false);
  struct Overdue {
    std::vector<std::pair<uint64_t, CallMade>> calls;   ///< taken out
    Clock::time_point next = Clock::time_point::max();  ///< the earliest deadline of those left
    bool others = false;                                ///< whether any calls are left
  };
  Overdue take_overdue(Clock::time_point now);
  /// Takes all calls out; no call can be entered after that. Returns nothing if this was called before.
  std::optional<CallTable<CallMade>> end();

  bool contains(uint64_t call_id) const;
  bool ended() const;
  std::size_t size() const;
  void for_each(const std::function<void(uint64_t, const CallMade&)>& f) const;  ///< `f` must not use this object

 private:
  std::optional<CallMade> take_locked(uint64_t call_id, bool cancelled) noexcept;
  auto moved() noexcept {
    return [this](uint32_t place, uint32_t position) noexcept { calls_.at(place).deadline_position = position; };
  }

  mutable ShortMutex mutex_;
  bool ended_ = false;
  uint64_t last_call_id_ = 0;
  CallTable<CallMade> calls_;
  Deadlines deadlines_;  // of the calls that have one
};

}  // namespace tendril::rpc::detail
