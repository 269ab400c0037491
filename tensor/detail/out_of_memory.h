#pragma once

#include <cstddef>

namespace tendril::memory::detail {

/// Throws Error: so many bytes of host memory were asked for, and what is in use. For who caught allocate()'s
/// std::bad_alloc: what was kept for reuse has been given back by then, and was not enough.
[[noreturn]] void out_of_memory(std::size_t bytes);
/// The same where another library asked, `who`, for the operation `op`: it does not say for how many.
[[noreturn]] void out_of_memory(const char* who, const char* op);

}  // namespace tendril::memory::detail
