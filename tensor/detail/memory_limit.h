#pragma once

#include <cstddef>
#include <string>

namespace tendril::memory::detail {

/// The least of the memory limits of a control group and those around it, in bytes: the numbers in `file` of the folder
/// `root` and of those of `group` ("/user.slice/...") below it. SIZE_MAX where there is none.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html
std::size_t group_memory_limit(const std::string& root, std::string group, const std::string& file);

/// What this process may use: the machine's memory, or its control group's limit where that is less. 0: not known.
std::size_t usable_memory() noexcept;

}  // namespace tendril::memory::detail
