#pragma once

#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "tendril/rpc/future.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Futures of any types, none of which outlives the scope that they were made in:
///
///     FutureScope scope;
///     scope.add(rpc_async<&f>("w1", x));
///     scope.add(rpc_async<&g>("w2", y));
///     scope.wait();
///
/// `wait_all` (future.h) is for futures of one type, and returns their values. For one thread at a time.
class FutureScope {
 public:
  FutureScope() = default;
  FutureScope(const FutureScope&) = delete;
  FutureScope& operator=(const FutureScope&) = delete;
  /// Waits for all as well, also where an exception leaves the scope. Their errors, if nobody else reads them, are
  /// reported as those of any call (call.h). In an I/O callback, where nothing can be waited for, they go on.
  ~FutureScope() {
    for (const auto& future : futures_) wait_for(*future);
  }

  /// Returns the future. If no memory is left, waits for the future before it throws std::bad_alloc.
  template <class T>
  Future<T> add(Future<T> future) {
    if (!future.valid()) throw UsageError("FutureScope: the future is empty");
    try {
      futures_.push_back(future.state());
    } catch (const std::bad_alloc&) {
      wait_for(*future.state());
      throw;
    }
    return future;
  }

  /// Waits until every future that was added has ended, then throws the first error, in the order in which they were
  /// added; the scope is empty then. Throws UsageError in an I/O callback.
  void wait() {
    for (const auto& future : futures_) future->wait();
    const auto ended = std::exchange(futures_, {});
    for (const auto& future : ended) future->rethrow_error();
  }

 private:
  /// Waits without a deadline, unless this is an I/O callback: a continuation must not outlive the variables that it
  /// refers to. Repeats the wait if it runs out of memory.
  static void wait_for(FutureCore& future) noexcept {
    while (!future.done()) {
      try {
        future.wait();
      } catch (const std::bad_alloc&) {
      } catch (...) {
        return;
      }
    }
  }

  std::vector<Ref<FutureCore>> futures_;
};

}  // namespace tendril::rpc

TENDRIL_API_END
