#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>

/// What the examples that train share.
namespace examples {

/// A line that says how far a program is, with its rate and the time that is left; where standard error is a terminal,
/// and nowhere else. It is gone when a line is printed after `clear`.
class Progress {
 public:
  /// `done` of `total` are done before the first `advance`; `unit` is what is counted.
  Progress(const char* unit, std::int64_t total, std::int64_t done = 0)
      : unit_(unit), total_(total), from_(done), done_(done) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t count = 1) {
    done_ += count;
    const auto now = Clock::now();
    if (!terminal_ || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    const double rate = static_cast<double>(done_ - from_) / std::chrono::duration<double>(now - start_).count();
    const auto left = static_cast<std::int64_t>(static_cast<double>(total_ - done_) / std::max(rate, 1e-9));
    std::fprintf(stderr, "\r\033[K%.0f %%  %.0f %s/s  %lld:%02lld left",
                 100.0 * static_cast<double>(done_) / static_cast<double>(total_), rate, unit_,
                 static_cast<long long>(left / 60), static_cast<long long>(left % 60));
  }
  void clear() {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const char* unit_;
  std::int64_t total_, from_, done_;
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

namespace detail {
inline volatile std::sig_atomic_t stop_wanted = 0;
}
/// From here on SIGTERM and Ctrl-C only ask the program to stop; the second one ends it.
inline void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int which) {
      detail::stop_wanted = 1;
      std::signal(which, SIG_DFL);
    });
  }
}
inline bool stop_wanted() { return detail::stop_wanted != 0; }

}  // namespace examples
