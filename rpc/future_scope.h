#pragma once

#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "tendril/rpc/future.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Ensures that a set of futures of any types is done before a scope is left:
///
///     FutureScope scope;
///     scope.add(rpc_async<&f>("w1", x));
///     scope.add(rpc_async<&g>("w2", y));
///     scope.wait();
///
/// For futures of one type, `wait_all` (future.h) also returns their values. Not thread-safe.
class FutureScope {
 public:
  FutureScope() = default;
  FutureScope(const FutureScope&) = delete;
  FutureScope& operator=(const FutureScope&) = delete;
  /// Waits for all futures, also when an exception leaves the scope. Errors that were never read are reported as for
  /// any call (call.h). Does not wait in an I/O callback, where waiting is not allowed.
  ~FutureScope() {
    for (const auto& future : futures_) wait_for(*future);
  }

  /// Adds the future, and returns it. If memory runs out, waits for the future before it throws std::bad_alloc.
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

  /// Waits until every added future is done, then throws the first error, in the order in which they were added. The
  /// scope is then empty. Throws UsageError in an I/O callback.
  void wait() {
    for (const auto& future : futures_) future->wait();
    const auto ended = std::exchange(futures_, {});
    for (const auto& future : ended) future->rethrow_error();
  }

 private:
  /// Waits without a deadline, except in an I/O callback: a continuation must not outlive the variables that it refers
  /// to. Repeats the wait if memory runs out.
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
