#pragma once

#include <string>

namespace tendril::rpc::detail {

/// Returns the type and text of the exception that is being handled.
std::string describe_current_exception();

/// Installs a terminate handler that prints an uncaught exception's text and this worker's name to stderr and exits
/// with status 70, as a worker of spawn() does. If the program has its own terminate handler, that one is called after
/// the text is printed and decides how the process ends. `worker` is empty if the process is not a worker yet; an empty
/// name does not replace an earlier one. Thread-safe.
void report_uncaught_as(const std::string& worker);

}  // namespace tendril::rpc::detail
