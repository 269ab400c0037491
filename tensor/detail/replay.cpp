#include "tendril/tensor/detail/replay.h"

#include <atomic>

#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::detail {
namespace {

thread_local Recorder* of_thread = nullptr;
const auto recorder_switched = tendril::detail::of_each_thread([]() -> auto& { return of_thread; });
std::atomic<uint64_t> last_number = 0;

}  // namespace

Recorder::Recorder(Device device) noexcept
    : device_(device), number_(last_number.fetch_add(1, std::memory_order_relaxed) + 1) {}

Recorder* recorder() noexcept { return of_thread; }
Recorder* recorder(Device device) noexcept { return of_thread && of_thread->device() == device ? of_thread : nullptr; }
void set_recorder(Recorder* recorder) noexcept { of_thread = recorder; }

}  // namespace tendril::detail
