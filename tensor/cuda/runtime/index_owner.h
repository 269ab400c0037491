#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Whose error an index out of range on a device is (docs/cuda.md). Work outside of any call is the process's: the next
/// wait of a thread that serves no call throws its errors. Work for a call is the call's: only that call's waits throw
/// its errors, and rpc/ waits for it before results leave. All functions are thread-safe. In a library without CUDA
/// they do nothing.
namespace tendril::cuda {

/// Names one call that this process serves, among all that it ever will.
struct CallStamp {
  uint64_t server = 0;  ///< 0: no call
  int64_t caller = 0;
  uint64_t number = 0;

  friend auto operator<=>(const CallStamp&, const CallStamp&) = default;
};

/// From now on `ask` says which call the calling thread works for. It is asked by operations by index and by waits.
void set_call_of_thread(CallStamp (*ask)() noexcept) noexcept;
/// As it says; no call where nobody was named.
CallStamp call_of_thread() noexcept;

/// Whether kernels that look at indices were issued for the call, and it has not ended.
bool has_index_work(const CallStamp& call) noexcept;
/// An event on each stream that such kernels were issued to. Empty for no call.
std::vector<Event> ends_of_index_work(const CallStamp& call);
/// To be called after waiting. Throws IndexError if one of the call's kernels (of the process's on `device`, for no
/// call) has noted one, and forgets it.
void throw_index_errors_of(const CallStamp& call, int device);
/// The call was answered: what its kernels may still note is nobody's.
void end_index_work(const CallStamp& call) noexcept;

}  // namespace tendril::cuda

TENDRIL_API_END
