#pragma once

#include <memory>
#include <utility>

#include "tendril/rpc/executor.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// Whether this thread runs an I/O callback: nothing here may block, users' destructors included.
bool in_io_callback() noexcept;

/// Has a pool thread run `job`: of the loop that this thread leads, else of `executor`. Where there is neither it runs
/// here.
void release_in_pool(std::unique_ptr<Job> job, Executor* executor) noexcept;

/// Releases an object of the user's, or of what may hold one: its destructor may take long, block or make calls.
/// Here, unless this thread drives I/O: then on a pool thread, soon.
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
