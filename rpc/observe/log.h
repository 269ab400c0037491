#pragma once

#include <string>
#include <string_view>

namespace tendril::rpc::detail {

/// Of TENDRIL_LOG: what is said at this level and those before it.
enum class LogLevel { off, error, warn, info, debug };

/// Whether somebody listens at this level: asked before a text is made that costs something.
bool logs(LogLevel level) noexcept;
/// One line on the error output, with the time, the level and the worker's name where TENDRIL_LOG is set; else the text
/// alone. Thread-safe.
void log(LogLevel level, std::string_view worker, std::string_view text) noexcept;

}  // namespace tendril::rpc::detail
