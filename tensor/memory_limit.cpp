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

/// Of version 2; "/" where there is none, as in a container, which sees its own as the root.
std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::/", 0) == 0) return line.substr(3);
  }
  return "/";
}

}  // namespace

std::size_t group_memory_limit(const std::string& root, std::string group) {
  std::size_t least = std::min(number_in(root + "/memory.max"), number_in(root + "/memory/memory.limit_in_bytes"));
  while (group.size() > 1) {
    least = std::min(least, number_in(root + group + "/memory.max"));
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
    return std::min(machine, group_memory_limit("/sys/fs/cgroup", own_group()));
  } catch (const std::exception&) {  // no memory for a file's name
    return machine;
  }
}

}  // namespace tendril::memory::detail
