#pragma once

#include <functional>
#include <string>

#include "cuda_emulator/device.h"

namespace cuda_emulator {

/// Runs `thread` once for each thread of each block. Only under the world's lock.
void run_grid(const void* kernel, dim3 grid, dim3 block, unsigned shared, const std::function<void()>& thread);

/// What is running right now, for messages: "kernel f(int*), block (0, 0, 0), thread (3, 0, 0)", or nothing.
std::string running();
/// The kernel that ran last, or "nothing".
std::string last_run();

}  // namespace cuda_emulator
