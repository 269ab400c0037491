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
#include "tendril/rpc/observe/trace_clock.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Something that took time at one worker.
struct TraceSpan {
  enum class Kind : uint8_t {
    send,      ///< a thread makes a call: until the request has been handed to the link
    call,      ///< from the call to its result or error
    handler,   ///< a thread runs the served function
    deferred,  ///< from there to an answer that came later: of a coroutine or a Future
    // Of a backward over workers (dist/); `function` is the pass's number, `peer` its root.
    pass,   ///< a worker's part, from the first that it hears of it
    graph,  ///< a thread runs the part's graph
    walk,   ///< a thread looks what the roots depend on
    lead,   ///< a thread runs the worker's I/O (docs/rpc.md, "Who runs what"): one at a time
  };
  Kind kind = Kind::send;
  bool failed = false;
  WorkerId peer = -1;
  uint64_t function = 0;
  uint64_t trace_id = 0, span_id = 0, parent = 0;
  int64_t start_ns = 0, end_ns = 0;  ///< of this process's steady clock
};

static_assert(std::is_trivially_copyable_v<TraceSpan>);

/// The spans of one agent, and the file that they end up in (docs/observability.md). Recording takes no lock: each
/// thread writes to a buffer of its own. Memory is bounded: beyond `max_spans` further ones are counted only.
class Trace {
 public:
  static constexpr std::size_t kMaxSpans = std::size_t{1} << 20;  ///< 56 MiB

  Trace(std::string path, WorkerInfo self, uint64_t incarnation, std::size_t max_spans = kMaxSpans);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Gives a request its own span, in the trace of `context`; a new trace where there is none. Returns the span's id.
  uint64_t begin_call(const CallContext& context, Message& request) noexcept;
  void record(const TraceSpan& span) noexcept;
  /// For a span that is no call.
  uint64_t next_id() noexcept { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }

  /// All that has been recorded, by threads. Others may record meanwhile.
  struct Thread {
    int id = 0;
    std::string name;
    std::vector<TraceSpan> spans;
  };
  std::vector<Thread> threads() const;
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

  /// Adds this worker to the file. `group` tells the runs apart: a trace that another one has left there is replaced.
  /// Where other workers add themselves at the same time, it waits for them, for 10 s at most. Throws UsageError if the
  /// path is a symbolic link or a file that is neither empty nor a trace, std::system_error, TimeoutError.
  void write(const std::string& group, const ClockFit& clock) const;

 private:
  static constexpr std::size_t kChunkSpans = 256;
  struct Chunk {
    std::array<std::byte, kChunkSpans * sizeof(TraceSpan)> spans;  // not initialised: that would cost as much again
    std::atomic<std::size_t> used{0};                              // the spans before it do not change any more
    std::atomic<Chunk*> next{nullptr};
  };
  struct Buffer;

  Buffer* buffer_of_this_thread() noexcept;
  bool add_chunk(Buffer& buffer) noexcept;
  std::string events(const ClockFit& clock) const;

  const std::string path_;
  const WorkerInfo self_;
  const uint64_t serial_;  // no other trace of this process has it
  std::atomic<uint64_t> last_id_;
  std::atomic<int64_t> chunks_left_;
  std::atomic<uint64_t> dropped_{0};
  mutable Mutex mutex_;
  std::unordered_map<int, std::unique_ptr<Buffer>> buffers_;  // by thread id
};

/// Throws as Trace::write would for this path; changes nothing.
void check_trace_path(const std::string& path);

/// Where an agent's spans go; null: nowhere.
std::shared_ptr<Trace> trace_of(const Agent& agent) noexcept;

inline int64_t trace_ns(Clock::time_point when) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

/// The part of a call on the thread that makes it; recorded at the end of the scope, if it has begun.
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
