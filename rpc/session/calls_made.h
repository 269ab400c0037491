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
#include "tendril/rpc/call/counters.h"
#include "tendril/rpc/call/deadlines.h"
#include "tendril/rpc/call/pending_call.h"
#include "tendril/rpc/threads/short_mutex.h"

namespace tendril::rpc::detail {

class Session;

/// What the caller's stop token does.
struct CancelCall {
  std::weak_ptr<Session> session;
  uint64_t call_id;
  void operator()() const noexcept;
};
using CancelCallback = std::stop_callback<CancelCall>;

/// A call without its reply.
struct CallMade {
  OpenCall open;  // first: it goes last
  PendingCallRef call = {};
  uint64_t function = 0;
  Clock::time_point started = {}, deadline = {};
  bool leaving = false;  // its references are being registered: who ends it leaves it to the sender to say so
  std::unique_ptr<CancelCallback> stop = {};
  std::shared_ptr<SentTensors> tensors = {};         // null: the request has none
  uint64_t span = 0;                                 // 0: not traced
  uint32_t deadline_position = Deadlines::kNowhere;  // CallsMade's
};

/// The caller's half of a session: which calls wait for their replies. Whoever takes a call out ends it, once.
/// Thread-safe; knows no connection and no clock.
class CallsMade {
 public:
  /// Numbers the call: 1, 2, 3, ... 0: the session has ended, and `call` is untouched.
  uint64_t enter(CallMade&& call);
  /// Keeps what watches the call's stop token, unless the call has ended: then it goes at once.
  void watch(uint64_t call_id, std::unique_ptr<CancelCallback> stop);
  /// Before the references of a request are registered. False: the call has ended, and with it all that is known of it.
  bool begin_leaving(uint64_t call_id);
  /// True: the call was cancelled meanwhile, and the peer is still to be told.
  bool end_leaving(uint64_t call_id);

  /// `cancelled`: without a reply, and not because the session ends.
  std::optional<CallMade> take(uint64_t call_id, bool cancelled = false);
  struct Overdue {
    std::vector<std::pair<uint64_t, CallMade>> calls;   ///< taken out
    Clock::time_point next = Clock::time_point::max();  ///< the earliest deadline of those left
    bool others = false;                                ///< there are some left
  };
  Overdue take_overdue(Clock::time_point now);
  /// All of them, once; no call is entered after that. Nothing: it had ended.
  std::optional<CallTable<CallMade>> end();

  bool contains(uint64_t call_id) const;
  bool ended() const;
  std::size_t size() const;
  void for_each(const std::function<void(uint64_t, const CallMade&)>& f) const;  ///< `f` must not come back here

 private:
  std::optional<CallMade> take_locked(uint64_t call_id) noexcept;
  auto moved() noexcept {
    return [this](uint32_t place, uint32_t position) noexcept { calls_.at(place).deadline_position = position; };
  }

  mutable ShortMutex mutex_;
  bool ended_ = false;
  uint64_t last_call_id_ = 0;
  CallTable<CallMade> calls_;
  Deadlines deadlines_;                  // of those that have one
  std::vector<uint64_t> ended_leaving_;  // calls that ended while they were leaving
};

}  // namespace tendril::rpc::detail
