#pragma once

#include <cstddef>
#include <string>

namespace tendril::memory::detail {

/// The least of the memory limits of a control group and those around it, in bytes: `memory.max` in the folders of
/// `group` ("/user.slice/...") below `root` (/sys/fs/cgroup), and version 1's memory/memory.limit_in_bytes of the
/// root. SIZE_MAX where there is none.
/// https://docs.kernel.org/admin-guide/cgroup-v2.html
std::size_t group_memory_limit(const std::string& root, std::string group);

/// What this process may use: the machine's memory, or its control group's limit where that is less. 0: not known.
std::size_t usable_memory() noexcept;

}  // namespace tendril::memory::detail
