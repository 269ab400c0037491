#include "tendril/tensor/detail/replay.h"

namespace tendril::detail {
namespace {

thread_local Recorder* of_thread = nullptr;

}  // namespace

Recorder* recorder() noexcept { return of_thread; }
Recorder* recorder(Device device) noexcept { return of_thread && of_thread->device() == device ? of_thread : nullptr; }
void set_recorder(Recorder* recorder) noexcept { of_thread = recorder; }

}  // namespace tendril::detail
