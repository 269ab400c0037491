#pragma once

#include <memory>
#include <utility>

#include "tendril/rpc/executor.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Whether this thread is running an I/O callback, where nothing may block, users' destructors included.
bool in_io_callback() noexcept;

/// Posts `job` to the pool of the loop that this thread leads, or else to that of `executor`. If there is neither, the
/// job is destroyed here, without running.
void release_in_pool(std::unique_ptr<Job> job, Executor* executor) noexcept;

/// Destroys a user's object, or one that may hold a user's object: its destructor may take long, block or make calls.
/// Destroys it here, unless this thread drives I/O: then soon, on a pool thread.
template <class T>
void release(T object, Executor* executor) noexcept {
  if (!in_io_callback()) return;
  struct Release final : Job {
    explicit Release(T&& last) : held(std::move(last)) {}
    void run(std::unique_ptr<Job>) noexcept override {}
    T held;
  };
  release_in_pool(std::make_unique<Release>(std::move(object)), executor);
}

}  // namespace tendril::rpc::detail

TENDRIL_API_END
