#pragma once

#include <string>
#include <string_view>

namespace tendril::rpc::detail {

/// The values of TENDRIL_LOG. Each level includes the levels before it.
enum class LogLevel { off, error, warn, info, debug };

/// Whether messages of this level are logged. Check this before you build an expensive text.
bool logs(LogLevel level) noexcept;
/// Writes one line to stderr: with the time, the process, the level and the worker's name if TENDRIL_LOG is set,
/// otherwise only the text. A simulator receives the line instead. Thread-safe.
void log(LogLevel level, std::string_view worker, std::string_view text) noexcept;

}  // namespace tendril::rpc::detail
