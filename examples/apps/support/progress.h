#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>

/// Progress and stop signals of the training examples.
namespace examples {

/// A status line with the percentage done, the rate and the time left. Shown only if standard error is a terminal. Call
/// `clear` before printing another line.
class Progress {
 public:
  /// `done` of `total` units are complete before the first `advance`; `unit` names them.
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
inline std::atomic<std::int64_t> stop_asked{0};  // time of the request in seconds since 1970; 0: none
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "used in a signal handler");
}  // namespace detail

/// Requests a stop, as a signal would.
inline void ask_to_stop() {
  std::int64_t none = 0;
  detail::stop_asked.compare_exchange_strong(none, std::time(nullptr));
}
/// From this call on, SIGTERM and Ctrl-C request a stop; a further signal at least two seconds later ends the program.
/// (One request may arrive twice: from the terminal, which signals all processes, and from the process that started
/// this one.)
inline void catch_stop_signals() {
  for (const int signal : {SIGTERM, SIGINT}) {
    std::signal(signal, [](int which) {
      const std::int64_t asked = detail::stop_asked;
      ask_to_stop();
      if (asked == 0 || std::time(nullptr) < asked + 2) return;
      std::signal(which, SIG_DFL);
      std::raise(which);
    });
  }
}
inline bool stop_wanted() { return detail::stop_asked != 0; }

}  // namespace examples
