#pragma once

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <string_view>
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

/// What --only names: some cases of a benchmark, or all where it is not given.
class Only {
 public:
  void add_to(CLI::App& app, const std::string& what) { app.add_option("--only", text_, "Only " + what); }
  bool is(std::string_view name) { return found(text_.empty() || name == text_); }
  bool is_part_of(std::string_view name) { return found(name.find(text_) != std::string_view::npos); }
  /// Of the program, when it has asked for all of its cases: an error if none was named.
  int status() const {
    if (!any_) std::cerr << "error: --only: no case is '" << text_ << "' or has it in its name\n";
    return any_ ? 0 : 1;
  }

 private:
  bool found(bool yes) {
    any_ = any_ || yes;
    return yes;
  }
  std::string text_;
  bool any_ = false;
};

inline void add_pin(CLI::App& app, std::string& pin, const std::vector<std::string>& choices) {
  app.add_option("--pin", pin, "To how many cores the processes are pinned")
      ->check(CLI::IsMember(choices))
      ->capture_default_str();
}

inline void add_quick(CLI::App& app, bool& quick) { app.add_flag("--quick", quick, "Fewer rounds"); }

}  // namespace tendril::bench
