#pragma once

#include <span>
#include <string>
#include <vector>

/// Where a thread is, as names of functions. Names come from the symbol tables of the program and its libraries, the
/// full ones where they are not stripped; a line of source is what `addr2line -Cfe FILE OFFSET` makes of an entry.
/// Where the platform has no backtraces, both are empty.
namespace tendril::autograd::detail {

/// The return addresses of the calling thread, innermost first. Cheap: nothing is looked up.
std::vector<void*> backtrace();

/// One line each, innermost first, without the recording itself and what called main: "  name (file+0xoffset)".
std::string describe(std::span<void* const> backtrace);

}  // namespace tendril::autograd::detail
