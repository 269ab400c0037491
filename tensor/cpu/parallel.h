#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "tendril/tensor/export.h"
#include "tendril/tensor/threads.h"

TENDRIL_API_BEGIN

/// One kernel on several threads: the caller and workers that help it (workers.h).
namespace tendril::cpu {

/// Elements below which a second thread costs more than it gains.
inline constexpr int64_t kParallelGrain = 32 * 1024;

using Part = void (*)(const void* body, int64_t begin, int64_t end);
/// Runs [0, count) on up to `threads` (2 or more), a chunk of `grain` or more at a time.
void run_parts(int64_t threads, int64_t count, int64_t grain, Part part, const void* body);

/// Runs body(begin, end) over chunks of [0, count), on at most num_threads() threads and with at least `grain` of them
/// a chunk. Results must not depend on where the cuts are. `body` must not throw, nor wait for another thread. May
/// nest, and be called by many threads: together they have the budget, or one each where that is spent.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  const int64_t most = count / std::max<int64_t>(grain, 1);
  const int64_t parts = most < 2 ? 1 : std::min<int64_t>(most, num_threads());
  if (parts < 2) {
    body(int64_t{0}, count);
  } else {
    run_parts(
        parts, count, grain,
        [](const void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
        &body);
  }
}

/// body(i) for each of `parts` parts, on the calling thread and others, each of which counts as one thread to what it
/// calls. Here `body` may throw: all other parts are done, then one of the exceptions is thrown on.
template <class Body>
void for_each_part(int64_t parts, const Body& body) {
  std::atomic<bool> failed = false;
  std::exception_ptr failure;
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    const ThreadLimit alone(1);
    for (int64_t i = begin; i < end; ++i) {
      try {
        body(i);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();  // read when all have ended
      }
    }
  });
  if (failure) std::rethrow_exception(std::move(failure));
}

/// How many items of `elements` each make a part worth a thread.
inline int64_t grain_of(int64_t elements) {
  return std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, elements));
}

}  // namespace tendril::cpu

TENDRIL_API_END
