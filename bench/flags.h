#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tendril/tensor/threads.h"

/// Flags that several benchmarks have: name and range are the same in all, and stand here once.
namespace tendril::bench {

/// Threads of kernels; one where the flag is not given.
inline void add_threads(CLI::App& app) {
  set_num_threads(1);
  app.add_option_function<int>("--threads", set_num_threads, "Threads of kernels")
      ->check(CLI::Range(1, 1024))
      ->default_str("1");
}

inline void add_only(CLI::App& app, std::string& only, const std::string& what) {
  app.add_option("--only", only, "Only " + what);
}

inline void add_pin(CLI::App& app, std::string& pin, const std::vector<std::string>& choices) {
  app.add_option("--pin", pin, "To how many cores the processes are pinned")
      ->check(CLI::IsMember(choices))
      ->capture_default_str();
}

inline void add_quick(CLI::App& app, bool& quick) { app.add_flag("--quick", quick, "Fewer rounds"); }

}  // namespace tendril::bench
