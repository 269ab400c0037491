#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace soak {

/// Memory and descriptors of a process over time.
class Usage {
 public:
  void look(pid_t pid, double seconds) {
    const std::string process = "/proc/" + std::to_string(pid);
    long pages = 0;
    std::ifstream(process + "/statm") >> pages >> pages;
    std::error_code error;
    const auto files = std::filesystem::directory_iterator(process + "/fd", error);
    const auto descriptors = std::distance(begin(files), std::filesystem::directory_iterator());
    looks_.push_back(
        {seconds, static_cast<double>(pages * ::sysconf(_SC_PAGESIZE)) / (1 << 20), static_cast<double>(descriptors)});
  }

  /// Whether the use grew from the first quarter to the last by more than its usual variation.
  bool grows(double seconds) const {
    return mean(seconds, 3, &Look::mib) > 1.1 * mean(seconds, 0, &Look::mib) + 8 ||
           mean(seconds, 3, &Look::descriptors) > mean(seconds, 0, &Look::descriptors) + 4;
  }
  std::string text(double seconds) const {
    std::ostringstream text;
    text.precision(3);
    for (int quarter = 0; quarter < 4; ++quarter) text << mean(seconds, quarter, &Look::mib) << " ";
    text << "MiB in each quarter, ";
    for (int quarter = 0; quarter < 4; ++quarter) text << mean(seconds, quarter, &Look::descriptors) << " ";
    text << "descriptors";
    return text.str();
  }

 private:
  struct Look {
    double at, mib, descriptors;
  };

  double mean(double seconds, int quarter, double Look::*what) const {
    double sum = 0, count = 0;
    for (const Look& one : looks_) {
      if (one.at < quarter * seconds / 4 || one.at >= (quarter + 1) * seconds / 4) continue;
      sum += one.*what;
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }

  std::vector<Look> looks_;
};

}  // namespace soak
