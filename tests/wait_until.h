#pragma once

#include <chrono>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace tendril::test {

/// Pause between two polls of a state that changes without a notification. It affects only how soon a wait ends, never
/// whether a test passes.
inline constexpr std::chrono::milliseconds kPollInterval{1};

/// Polls until `condition()` holds, for at most `patience`. Returns whether it holds. Use it only for a state that
/// other threads or processes change without a notification; where there is a future, a latch or a condition variable,
/// wait on that.
template <class Condition>
[[nodiscard]] bool holds_within(std::chrono::nanoseconds patience, Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return condition();
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

/// Like `holds_within`, but throws std::runtime_error if the condition still does not hold at the deadline. The error
/// gives the caller's file and line and `expected`, for example "two peers are connected".
template <class Condition>
void wait_until(std::string_view expected, Condition condition,
                std::chrono::nanoseconds patience = std::chrono::seconds(60),
                const std::source_location& caller = std::source_location::current()) {
  if (holds_within(patience, condition)) return;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  throw std::runtime_error(std::string(caller.file_name()) + ':' + std::to_string(caller.line()) +
                           ": wait_until: deadline of " + std::to_string(waited) +
                           " ms passed, expected: " + std::string(expected));
}

}  // namespace tendril::test
