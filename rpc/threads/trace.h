#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/clock_fit.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {
class Agent;
}

namespace tendril::rpc::detail {

/// An activity that took time at one worker.
struct TraceSpan {
  enum class Kind : uint8_t {
    send,      ///< a thread makes a call, until the request has been passed to the link
    call,      ///< from the call to its result or error
    handler,   ///< a thread runs the served function
    deferred,  ///< from the handler's start to a later answer, by a coroutine or a Future
    // Of a backward over several workers (dist/); `function` is the number of the pass, `peer` its root.
    pass,   ///< a worker's part, from the moment it learns of the pass
    graph,  ///< a thread runs the part's graph
    walk,   ///< a thread finds the dependencies of the roots
    lead,   ///< a thread runs the worker's I/O, one thread at a time (docs/rpc.md, "Who runs what")
  };
  Kind kind = Kind::send;
  bool failed = false;
  WorkerId peer = -1;
  uint64_t function = 0;
  uint64_t trace_id = 0, span_id = 0, parent = 0;
  int64_t start_ns = 0, end_ns = 0;  ///< of this process's steady clock
};

static_assert(std::is_trivially_copyable_v<TraceSpan>);

/// The spans of one agent, and the file to which they are written (docs/observability.md). Recording takes no lock,
/// because each thread writes to its own buffer. Memory is bounded: spans beyond `max_spans` are only counted.
class Trace {
 public:
  static constexpr std::size_t kMaxSpans = std::size_t{1} << 20;  ///< 56 MiB

  Trace(std::string path, WorkerInfo self, uint64_t incarnation, std::size_t max_spans = kMaxSpans);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Assigns a new span to a request, in the trace of `context` or, without one, in a new trace. Returns the span's id.
  uint64_t begin_call(const CallContext& context, Message& request) noexcept;
  void record(const TraceSpan& span) noexcept;
  /// Returns an id for a span that is not a call.
  uint64_t next_id() noexcept { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }

  /// All recorded spans, by thread. Other threads may record meanwhile.
  struct Thread {
    int id = 0;
    std::string name;
    std::vector<TraceSpan> spans;
  };
  std::vector<Thread> threads() const;
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  /// Adds this worker to the file. `group` distinguishes runs: a trace of another run is replaced. Waits for other
  /// workers that add themselves at the same time, for at most 10 s. Throws UsageError if the path is a symbolic link
  /// or a file that is neither empty nor a trace, std::system_error, TimeoutError.
  void write(const std::string& group, const ClockFit& clock) const;

 private:
  static constexpr std::size_t kChunkSpans = 256;
  struct Chunk {
    std::array<std::byte, kChunkSpans * sizeof(TraceSpan)> spans;  // not initialized, which would double the cost
    std::atomic<std::size_t> used{0};                              // spans before this index no longer change
    std::atomic<Chunk*> next{nullptr};
  };
  struct Buffer;

  Buffer* buffer_of_this_thread() noexcept;
  bool add_chunk(Buffer& buffer) noexcept;
  std::string events(const ClockFit& clock) const;

  const std::string path_;
  const WorkerInfo self_;
  const uint64_t serial_;  // unique among the traces of this process
  std::atomic<uint64_t> last_id_;
  std::atomic<int64_t> chunks_left_;
  std::atomic<uint64_t> dropped_{0};
  mutable Mutex mutex_;
  std::unordered_map<int, std::unique_ptr<Buffer>> buffers_;  // by thread id
};

/// Throws the errors that Trace::write would throw for this path. Changes nothing.
void check_trace_path(const std::string& path);

/// Returns the trace that records an agent's spans, or null.
std::shared_ptr<Trace> trace_of(const Agent& agent) noexcept;

inline int64_t trace_ns(Clock::time_point when) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

/// Records the part of a call on the calling thread, at the end of the scope, if `begin` has been called.
class TraceSend {
 public:
  void begin(Trace& trace, const TraceSpan& span) noexcept {
    trace_ = &trace;
    span_ = span;
  }
  TraceSend() = default;
  ~TraceSend() {
    if (!trace_) return;
    span_.end_ns = trace_ns(Clock::now());
    trace_->record(span_);
  }
  TraceSend(const TraceSend&) = delete;
  TraceSend& operator=(const TraceSend&) = delete;

 private:
  Trace* trace_ = nullptr;
  TraceSpan span_;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
