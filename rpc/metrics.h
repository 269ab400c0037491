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

/// A histogram of durations with four buckets for each power of two: quantiles are accurate to about 19 %.
struct LatencyHistogram {
  static constexpr int buckets = 160;      ///< from 1 ns to about 18 minutes
  std::array<uint64_t, buckets> counts{};  ///< number of calls in each bucket

  uint64_t sum_ns = 0;  ///< sum of all durations, exact

  /// Number of calls counted.
  uint64_t total() const noexcept;
  /// The duration below which the fraction q (0 to 1) of the calls lie; zero if no call was counted.
  std::chrono::nanoseconds quantile(double q) const noexcept;
  /// The bucket of a duration.
  static int bucket_of(std::chrono::nanoseconds duration) noexcept;
  /// The longest duration of a bucket.
  static std::chrono::nanoseconds upper_bound(int bucket) noexcept;
};

/// Counters of an agent since its construction, and gauges of its current state. A snapshot; the fields are read one
/// after the other.
struct Metrics {
  // Counters
  uint64_t calls_made = 0;       ///< calls sent, or attempted, to other workers and to itself
  uint64_t calls_completed = 0;  ///< calls that ended with a result
  uint64_t calls_failed = 0;     ///< calls that ended with any error
  uint64_t calls_timed_out = 0;  ///< failed calls that timed out
  uint64_t calls_cancelled = 0;  ///< failed calls that their caller cancelled
  uint64_t errors_unread = 0;    ///< failed calls whose futures were destroyed without being read (unread_error.h)
  uint64_t calls_served = 0;     ///< requests answered
  uint64_t calls_dropped = 0;    ///< requests not started: cancelled or past their deadline while queued
  uint64_t late_replies = 0;     ///< replies to calls that had already ended
  uint64_t requests_sent = 0, requests_received = 0;  ///< requests exchanged with other workers
  uint64_t tensors_lent = 0;                    ///< tensors on devices sent as memory handles (AgentOptions::cuda_ipc)
  uint64_t tensors_borrowed = 0;                ///< tensors on devices received as memory handles
  uint64_t bytes_sent = 0, bytes_received = 0;  ///< bytes of frames, including their headers
  LatencyHistogram latency = {};                ///< latency of calls made, from the call to its result
  // Gauges
  uint64_t pending_calls = 0;     ///< calls made that have not ended
  uint64_t open_calls = 0;        ///< pending calls, and ended ones whose outcome is still being delivered
  uint64_t queued_jobs = 0;       ///< jobs that wait for a slot
  uint64_t active_handlers = 0;   ///< handlers that hold a slot
  uint64_t blocked_handlers = 0;  ///< handlers that wait, or are in rpc::blocking, without holding a slot
  uint64_t unanswered_calls = 0;  ///< requests received and not yet answered (queued, running or parked)
  uint64_t queued_bytes = 0;      ///< bytes that wait to be sent
  uint64_t tensors_out = 0;       ///< tensors lent and not yet returned
  uint64_t threads = 0;           ///< threads of the pool
};

/// The requests that the currently open connections have carried. In an idle group whose workers agree on which of them
/// are connected, the requests sent and received add up to the same number, because requests that were lost with a
/// connection are not counted on either side.
struct Traffic {
  uint64_t requests_sent = 0, requests_received = 0;  ///< over the open connections
  std::vector<WorkerId> not_connected;                ///< ranks of the group that are not connected
};

/// The work of one thread of an agent's pool, which may be waiting.
struct HandlerRunning {
  std::string function = {};       ///< the served function, even if its coroutine has resumed; else a kind of work
  WorkerInfo caller = {};          ///< rank -1: none
  std::chrono::nanoseconds age{};  ///< time since it began
};

/// Describes handlers for errors, longest-running first: "'train' for worker 'ps' (rank 0) for 3.2 s; a destructor for
/// 1 s".
std::string describe(std::vector<HandlerRunning> running);

/// A call that this worker has made and that has not ended.
struct CallInFlight {
  uint64_t call_id = 0;            ///< number of the call in its session
  WorkerInfo peer = {};            ///< the callee
  uint64_t function = 0;           ///< number of the function on the wire
  std::chrono::nanoseconds age{};  ///< time since the call was made
  std::string function_name = {};  ///< empty if this worker does not know the function
};

/// A request that has been received and not yet answered.
struct CallReceived {
  /// Progress of the request.
  enum class State : uint8_t {
    waiting_for_references,  ///< until the owners of the references in its arguments have confirmed them
    held_back,               ///< until the caller reads the replies that are queued for it
    queued,                  ///< for a slot of the pool, to begin or to resume
    running,                 ///< a thread executes it, or waits in `wait` or `rpc::blocking`
    suspended,               ///< it has begun, but no thread executes it: a suspended coroutine, a returned Future, or
                             ///< a method of an object that is still being created
  };
  uint64_t call_id = 0;            ///< same as the caller's CallInFlight::call_id
  WorkerInfo caller = {};          ///< the caller
  uint64_t function = 0;           ///< number of the function on the wire
  std::string function_name = {};  ///< empty if this worker does not know the function
  State state = State::queued;     ///< progress of the request
  std::chrono::nanoseconds age{};  ///< time since it was received
};

/// Returns "waiting for references", "held back", "queued", "running" or "suspended".
const char* to_string(CallReceived::State state) noexcept;

/// The connection between an agent and a peer, or the agent itself.
struct Connection {
  WorkerInfo peer = {};        ///< the peer
  std::string transport = {};  ///< "unix", "tcp", "tls"; "self" for the agent's calls to itself
  uint64_t bytes_sent = 0, bytes_received = 0, queued_bytes = 0;  ///< bytes of frames; queued: not yet sent
  uint64_t requests_sent = 0, requests_received = 0;              ///< over this connection
  uint64_t pending_calls = 0, unanswered_calls = 0;  ///< calls made here, and requests received, without a result yet
  std::chrono::nanoseconds silent{};  ///< time since a byte was received; 0 for links that do not track it
};

/// A reference between two workers, as one of them knows it. An owner lists each user of its objects. An object that
/// has no users yet, because the call that creates it has not arrived, is listed with `user.id` -1.
struct LiveReference {
  /// State of the reference.
  enum class State : uint8_t {
    held,         ///< both workers know of it
    unconfirmed,  ///< the owner has not confirmed this user, or has not received the call that creates the object
    released,     ///< no handle is left here; the owner will be notified
    lost,         ///< a handle that cannot be used: its owner is gone, or the reference was lost in transit
  };
  std::string id = {};               ///< "RRef 0.17": rank of the worker whose call created it, and a number
  WorkerInfo owner = {}, user = {};  ///< the worker that has the object, and a worker that refers to it
  std::string type = {};             ///< type of the object; known only on its owner, once it has been created
  State state = State::held;         ///< state of the reference
  std::chrono::nanoseconds age{};    ///< time since this worker learned of this user
};

const char* to_string(LiveReference::State state) noexcept;  ///< returns the enumerator's name

}  // namespace tendril::rpc

TENDRIL_API_END
