// Recording of spans. trace_file.cpp writes them to the file.
#include "tendril/rpc/threads/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace tendril::rpc::detail {

/// The spans of one thread. Only that thread writes them.
struct Trace::Buffer {
  int thread_id = 0;
  std::string thread_name;
  Chunk* first = nullptr;  // published with the buffer
  Chunk* last = nullptr;   // used by the writing thread only
};

namespace {

/// The buffer that this thread used last.
struct RecentBuffer {
  uint64_t trace = 0;  // Trace::serial_
  void* buffer = nullptr;
};
thread_local RecentBuffer recent_buffer;

uint64_t next_trace_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

Trace::Trace(std::string path, WorkerInfo self, uint64_t incarnation, std::size_t max_spans)
    : path_(std::move(path)),
      self_(std::move(self)),
      serial_(next_trace_serial()),
      last_id_(incarnation << 32),  // ids of different workers do not collide
      chunks_left_(static_cast<int64_t>((max_spans + kChunkSpans - 1) / kChunkSpans)) {}

Trace::~Trace() {
  for (const auto& [thread, buffer] : buffers_) {
    for (Chunk* chunk = buffer->first; chunk;) delete std::exchange(chunk, chunk->next.load(std::memory_order_relaxed));
  }
}

uint64_t Trace::begin_call(const CallContext& context, Message& request) noexcept {
  const uint64_t id = next_id();
  request.trace_id = context.trace_id != 0 ? context.trace_id : id;
  request.span_id = id;
  return id;
}

bool Trace::add_chunk(Buffer& buffer) noexcept {
  if (chunks_left_.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    chunks_left_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  auto* const chunk = new (std::nothrow) Chunk;
  if (!chunk) return false;
  if (buffer.last) buffer.last->next.store(chunk, std::memory_order_release);
  if (!buffer.first) buffer.first = chunk;
  buffer.last = chunk;
  return true;
}

Trace::Buffer* Trace::buffer_of_this_thread() noexcept try {
  if (recent_buffer.trace == serial_) return static_cast<Buffer*>(recent_buffer.buffer);
  const std::lock_guard lock(mutex_);
  const int thread_id = static_cast<int>(::gettid());
  std::unique_ptr<Buffer>& buffer = buffers_[thread_id];
  if (!buffer) {
    auto made = std::make_unique<Buffer>();
    made->thread_id = thread_id;
    char name[16] = "";
    ::pthread_getname_np(::pthread_self(), name, sizeof name);
    made->thread_name = name;
    if (!add_chunk(*made)) {
      buffers_.erase(thread_id);
      return nullptr;
    }
    buffer = std::move(made);
  }
  recent_buffer = {serial_, buffer.get()};
  return buffer.get();
} catch (...) {  // out of memory
  return nullptr;
}

void Trace::record(const TraceSpan& span) noexcept {
  Buffer* const buffer = buffer_of_this_thread();
  if (!buffer || (buffer->last->used.load(std::memory_order_relaxed) == kChunkSpans && !add_chunk(*buffer))) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Chunk& chunk = *buffer->last;
  const std::size_t at = chunk.used.load(std::memory_order_relaxed);
  std::memcpy(chunk.spans.data() + at * sizeof span, &span, sizeof span);
  chunk.used.store(at + 1, std::memory_order_release);
}

std::vector<Trace::Thread> Trace::threads() const {
  std::vector<Thread> threads;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, buffer] : buffers_) {
    Thread& thread = threads.emplace_back();
    thread.id = buffer->thread_id;
    thread.name = buffer->thread_name;
    for (const Chunk *chunk = buffer->first, *next = nullptr; chunk; chunk = next) {
      // `next` is read first, because a chunk that has a next one is full. In the other order, the last spans of this
      // chunk could be missed while those of the next are found.
      next = chunk->next.load(std::memory_order_acquire);
      const std::size_t used = chunk->used.load(std::memory_order_acquire);
      const std::size_t before = thread.spans.size();
      thread.spans.resize(before + used);
      if (used > 0) std::memcpy(&thread.spans[before], chunk->spans.data(), used * sizeof(TraceSpan));
    }
  }
  std::sort(threads.begin(), threads.end(), [](const Thread& a, const Thread& b) { return a.id < b.id; });
  return threads;
}

}  // namespace tendril::rpc::detail
