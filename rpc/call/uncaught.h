#pragma once

#include <string>

namespace tendril::rpc::detail {

/// The type and text of the exception that is being handled.
std::string describe_current_exception();

/// From now on an exception that nobody catches ends the process with its text and this worker's name on the error
/// output and exit status 70, as in a worker of spawn(), instead of an abort that says neither. A terminate handler of
/// the program's own is called after the text, and decides. An empty name is that of a process which is no worker yet,
/// and leaves the name of one that is. Any thread.
void report_uncaught_as(const std::string& worker);

}  // namespace tendril::rpc::detail
