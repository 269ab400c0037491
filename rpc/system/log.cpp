// The only file that includes spdlog. spdlog and its fmt are compiled into it, so that targets that link with this
// library do not need them.
#include "tendril/rpc/system/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdlib>
#include <memory>

#include "tendril/rpc/system/simulator.h"

namespace tendril::rpc::detail {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

class ProcessLog {
 public:
  ProcessLog() : logger_("tendril", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    const char* const variable = std::getenv("TENDRIL_LOG");
    const std::string_view wanted = variable ? variable : "";
    decorated_ = !wanted.empty();
    bool known = !decorated_;
    constexpr std::string_view kNames[] = {"off", "error", "warn", "info", "debug"};
    for (int i = 0; i < 5; ++i) {
      if (wanted != kNames[i]) continue;
      level_ = static_cast<LogLevel>(i);
      known = true;
    }
    logger_.set_level(spdlog_level(level_));
    logger_.set_pattern(decorated_ ? "[%Y-%m-%d %H:%M:%S.%e] [%P] [%l] %v" : "%v");
    if (!known)
      say(LogLevel::warn, "", "TENDRIL_LOG is '" + std::string(wanted) + "', expected off, error, warn, info or debug");
  }
  LogLevel level() const noexcept { return level_; }
  void say(LogLevel level, std::string_view worker, std::string_view text) {
    std::string line;
    if (decorated_ && !worker.empty()) line.append("[").append(worker).append("] ");
    line += text;
    logger_.log(spdlog_level(level), line);
  }

 private:
  LogLevel level_ = LogLevel::warn;
  bool decorated_ = false;
  spdlog::logger logger_;
};

ProcessLog& process_log() {
  static auto* instance = new ProcessLog();  // never destroyed: threads may log while the program ends
  return *instance;
}

}  // namespace

bool logs(LogLevel level) noexcept try { return level <= process_log().level(); } catch (...) {
  return false;
}

void log(LogLevel level, std::string_view worker, std::string_view text) noexcept try {
  if (simulator != nullptr) return simulator->log(level, worker, text);
  if (logs(level)) process_log().say(level, worker, text);
} catch (...) {  // a line that cannot be logged is dropped
}

}  // namespace tendril::rpc::detail
