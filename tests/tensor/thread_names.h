#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace tendril::testing {

/// The threads of this process: names by ids. A thread that has been joined may still be among them for a moment, so
/// compare ids, not numbers of threads.
inline std::map<std::string, std::string> thread_names() {
  std::map<std::string, std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    std::getline(std::ifstream(task.path() / "comm"), names[task.path().filename()]);
  return names;
}

}  // namespace tendril::testing
