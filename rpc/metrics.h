#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Counts of durations in buckets that grow by a quarter of a power of two: quantiles are right to about 19 %.
struct LatencyHistogram {
  static constexpr int buckets = 160;      ///< from 1 ns to about 18 minutes
  std::array<uint64_t, buckets> counts{};  ///< of calls, by bucket_of

  uint64_t sum_ns = 0;  ///< of all durations, exact

  /// How many calls it has counted.
  uint64_t total() const noexcept;
  /// The duration below which the fraction q (0 to 1) of the calls fell; zero if there were none.
  std::chrono::nanoseconds quantile(double q) const noexcept;
  /// The bucket of a duration.
  static int bucket_of(std::chrono::nanoseconds duration) noexcept;
  /// The longest duration of a bucket.
  static std::chrono::nanoseconds upper_bound(int bucket) noexcept;
};

/// What an agent has done since it was made, and what it holds now. A snapshot: fields are read one after the other.
struct Metrics {
  // done so far
  uint64_t calls_made = 0;       ///< calls to others and to oneself that left, or tried to
  uint64_t calls_completed = 0;  ///< of these: with a result
  uint64_t calls_failed = 0;     ///< with any error
  uint64_t calls_timed_out = 0;  ///< of the failed
  uint64_t calls_cancelled = 0;  ///< of the failed: cancelled by their caller
  uint64_t errors_unread = 0;    ///< of calls whose futures went away before anybody had looked (unread_error.h)
  uint64_t calls_served = 0;     ///< requests answered
  uint64_t calls_dropped = 0;    ///< requests not started: cancelled or past their deadline while queued
  uint64_t late_replies = 0;     ///< replies to calls that had ended already
  uint64_t requests_sent = 0, requests_received = 0;  ///< to and from others
  uint64_t tensors_lent = 0;                    ///< of devices, that went to others as handles (AgentOptions::cuda_ipc)
  uint64_t tensors_borrowed = 0;                ///< and came so
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< of frames, with their headers
  LatencyHistogram latency = {};                ///< of calls made, from call to result
  // now
  uint64_t pending_calls = 0;     ///< made, not yet ended
  uint64_t open_calls = 0;        ///< these, and those whose outcome is just being told: what it sets off may come yet
  uint64_t queued_jobs = 0;       ///< waiting for a slot
  uint64_t active_handlers = 0;   ///< holding a slot
  uint64_t blocked_handlers = 0;  ///< that wait, or are in rpc::blocking, and hold none meanwhile
  uint64_t unanswered_calls = 0;  ///< requests received, not yet answered (queued, running or parked)
  uint64_t queued_bytes = 0;      ///< waiting to be sent
  uint64_t tensors_out = 0;       ///< lent, and not given back yet
  uint64_t threads = 0;           ///< of the pool
};

/// What the connections that are open now have carried. Over a group at rest whose workers agree on who is connected
/// with whom, as many requests have been received as sent: what was on its way when a connection ended counts nowhere.
struct Traffic {
  uint64_t requests_sent = 0, requests_received = 0;  ///< over this connection
  std::vector<WorkerId> not_connected;                ///< ranks of the group with which there is no connection
};

/// What a thread of an agent's pool is in, waiting or not.
struct HandlerRunning {
  std::string function = {};       ///< that was called, also where its coroutine goes on; else what kind of thing it is
  WorkerInfo caller = {};          ///< rank -1: none
  std::chrono::nanoseconds age{};  ///< so far
};

/// For errors: "'train' for worker 'ps' (rank 0) for 3.2 s; a destructor for 1 s", the longest first.
std::string describe(std::vector<HandlerRunning> running);

/// One call that has been made and has not ended.
struct CallInFlight {
  uint64_t call_id = 0;            ///< its number among the calls of this worker
  WorkerInfo peer = {};            ///< who it is
  uint64_t function = 0;           ///< its number on the wire
  std::chrono::nanoseconds age{};  ///< so far
  std::string function_name = {};  ///< empty where this worker has no such function
};

/// One request that has been received and has not been answered.
struct CallReceived {
  /// How far it has come.
  enum class State : uint8_t {
    waiting_for_references,  ///< until their owners have confirmed those among its arguments
    held_back,               ///< until the caller takes the replies that are queued for it
    queued,                  ///< for a slot of the pool: to begin, or to go on after it was suspended
    running,                 ///< a thread is in it; one that waits in `wait` or `rpc::blocking` too
    suspended,               ///< begun, and no thread is in it: a coroutine that awaits, a Future returned, a receiver
                             ///< that is still being made
  };
  uint64_t call_id = 0;            ///< as the caller's CallInFlight::call_id
  WorkerInfo caller = {};          ///< who called
  uint64_t function = 0;           ///< its number on the wire
  std::string function_name = {};  ///< empty where this worker has no such function
  State state = State::queued;     ///< how far it has come
  std::chrono::nanoseconds age{};  ///< since it was received
};

/// "waiting for references", "held back", "queued", "running", "suspended".
const char* to_string(CallReceived::State state) noexcept;

/// What there is between an agent and a peer that is connected now, or the agent itself.
struct Connection {
  WorkerInfo peer = {};        ///< who it is
  std::string transport = {};  ///< "unix", "tcp", "tls"; "self" for the agent's calls to itself
  uint64_t bytes_sent = 0, bytes_received = 0, queued_bytes = 0;  ///< of frames; queued: not yet sent
  uint64_t requests_sent = 0, requests_received = 0;              ///< over this connection
  uint64_t pending_calls = 0, unanswered_calls = 0;               ///< made here, and served here, without a result yet
  std::chrono::nanoseconds silent{};  ///< since the last byte was received; 0 for links that cannot fall silent
};

/// A reference that crosses workers, as one of the two knows it. An owner lists each of its users; an object that has
/// no users yet, because the call that makes it is still to come, is listed with `user.id` -1.
struct LiveReference {
  /// How far it has come.
  enum class State : uint8_t {
    held,         ///< both know of it
    unconfirmed,  ///< the owner has not confirmed this user yet, or not heard of the call that makes the object
    released,     ///< no handle is left here; the owner will be told
    lost,         ///< a handle that leads nowhere: its owner is gone, or it was lost on its way
  };
  std::string id = {};               ///< "RRef 0.17": rank of the worker whose call made it, and a number
  WorkerInfo owner = {}, user = {};  ///< who has the object, and who refers to it
  std::string type = {};             ///< of the object; only its owner knows it, and only once it has been made
  State state = State::held;         ///< how far it has come
  std::chrono::nanoseconds age{};    ///< since this worker has known of this user
};

const char* to_string(LiveReference::State state) noexcept;  ///< the enumerators' names

}  // namespace tendril::rpc

TENDRIL_API_END
