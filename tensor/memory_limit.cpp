#include "tendril/tensor/detail/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>

namespace tendril::memory::detail {
namespace {

/// SIZE_MAX where there is no such file, or no number in it ("max").
std::size_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number ? number : SIZE_MAX;
}

/// This process's, of version 2, or 1's of memory; "/" where there is none, as in a container, which sees its own as
/// the root.
std::string own_group(bool version_2) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "0::/path" or "7:memory,other:/path"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = ',' + line.substr(first + 1, second - first - 1) + ',';
    if (version_2 ? kinds == ",," : kinds.find(",memory,") != std::string::npos) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

std::size_t group_memory_limit(const std::string& root, std::string group, const std::string& file) {
  std::size_t least = number_in(root + '/' + file);
  while (group.size() > 1) {
    least = std::min(least, number_in(root + group + '/' + file));
    const auto end = group.rfind('/');
    group.resize(end == std::string::npos ? 0 : end);
  }
  return least;
}

std::size_t usable_memory() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::size_t machine =
      pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
  try {
    return std::min({machine, group_memory_limit("/sys/fs/cgroup", own_group(true), "memory.max"),
                     group_memory_limit("/sys/fs/cgroup/memory", own_group(false), "memory.limit_in_bytes")});
  } catch (const std::exception&) {  // no memory for a file's name
    return machine;
  }
}

}  // namespace tendril::memory::detail
