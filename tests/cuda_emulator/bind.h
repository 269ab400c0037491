#pragma once

#include <functional>

namespace cuda_emulator::detail {

/// What each thread of a kernel runs, given where the arguments lie.
using Bind = std::function<std::function<void()>(void**)>;

}  // namespace cuda_emulator::detail
