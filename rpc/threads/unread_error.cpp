#include "tendril/rpc/threads/unread_error.h"

#include <mutex>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/release.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {
namespace {

constexpr int kLinesPerSecond = 10;

/// Calls the process's handler, or prints the error if no handler is set.
class Reporter {
 public:
  UnreadErrorHandler set(UnreadErrorHandler handler) {
    const std::lock_guard lock(mutex_);
    return std::exchange(handler_, std::move(handler));
  }

  void report(const UnreadError& unread) {
    UnreadErrorHandler handler;
    {
      const std::lock_guard lock(mutex_);
      handler = handler_;
    }
    if (handler) return handler(unread);
    try {
      std::rethrow_exception(unread.error);
    } catch (const std::exception& error) {
      print(unread.function, error.what());
    } catch (...) {
      print(unread.function, "not a std::exception");
    }
  }

 private:
  void print(const std::string& function, const char* text) {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (now - second_ >= std::chrono::seconds(1)) {
      if (left_out_ > 0)
        detail::log(detail::LogLevel::warn, "", "tendril: " + std::to_string(left_out_) + " more unread errors");
      second_ = now;
      printed_ = left_out_ = 0;
    }
    if (printed_ >= kLinesPerSecond) {
      ++left_out_;
      return;
    }
    ++printed_;
    detail::log(detail::LogLevel::warn, "", "tendril: unread error of " + function + ": " + text);
  }

  detail::Mutex mutex_;
  UnreadErrorHandler handler_;
  Clock::time_point second_{};  // when the current second began
  int printed_ = 0, left_out_ = 0;
};

Reporter& reporter() {
  static auto* instance = new Reporter();  // never destroyed: futures may be released while the program exits
  return *instance;
}

const auto reporter_switched = tendril::detail::of_each_process([]() -> auto& { return reporter(); });

/// Reports the error when it is destroyed, which `release` does on a thread that may run the user's code.
struct UnreadReport {
  explicit UnreadReport(UnreadError error) : unread(std::move(error)) {}
  UnreadReport(UnreadReport&&) = default;
  UnreadReport& operator=(UnreadReport&&) = delete;
  ~UnreadReport() {
    if (!unread.error) return;
    try {
      reporter().report(unread);
    } catch (...) {  // a report that fails is dropped
    }
  }
  UnreadError unread;
};

bool is_cancellation(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CancelledError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

UnreadErrorHandler set_unread_error_handler(UnreadErrorHandler handler) { return reporter().set(std::move(handler)); }

namespace detail {

void report_unread_error(Executor* executor, const char* function, const std::exception_ptr& error) noexcept try {
  if (is_cancellation(error)) return;
  if (executor) executor->note_unread_error();
  release(UnreadReport({function, error}), executor);
} catch (...) {  // a report that fails is dropped
}

}  // namespace detail
}  // namespace tendril::rpc
