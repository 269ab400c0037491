#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/wait_until.h"

namespace tendril::test {

/// Whether this thread of this process sleeps in the kernel, e.g. waits for a lock, a condition variable or I/O.
inline bool is_asleep(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(stat), {});
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.substr(name_end, 3) == ") S";
}

/// Waits until `thread` (0: not known yet) blocks in the call under test, or until `over()` holds because that call has
/// returned. A thread that waits for a mutex also sleeps for a moment, so `thread` must be asleep in several polls in a
/// row. Returns false after a minute.
template <class Over>
[[nodiscard]] bool wait_until_asleep(const std::atomic<pid_t>& thread, Over over) {
  constexpr int kLooks = 5;
  int looks = 0;
  return holds_within(std::chrono::minutes(1), [&] {
    looks = thread != 0 && is_asleep(thread) ? looks + 1 : 0;
    return looks == kLooks || over();
  });
}
[[nodiscard]] inline bool wait_until_asleep(const std::atomic<pid_t>& thread) {
  return wait_until_asleep(thread, [] { return false; });
}

}  // namespace tendril::test
