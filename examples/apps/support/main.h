#pragma once

#include <cstdio>
#include <exception>

namespace tendril::rpc {
struct LaunchOptions;
}

/// The shared main function of the examples.
namespace examples {

/// Whether this process prints: the one that starts the others, or rank 0 if all were started together. Does not return
/// in a spawned worker (rpc::worker_main).
bool prints(int argc, char** argv, const tendril::rpc::LaunchOptions& launch);

/// Parses the command line with `parse(argc, argv, status)`, prints the flags if the options have them (`effective`),
/// and calls `body(options)`. Returns the exit status: that of `parse` if it ends the program, or 1 if an exception was
/// thrown, whose message is printed to standard error.
template <class Parse, class Body>
int run_main(int argc, char** argv, Parse parse, Body body) {
  int status = 0;
  const auto options = parse(argc, argv, status);
  if (!options) return status;
  try {
    if constexpr (requires { options->effective; }) {
      bool is_one_that_prints = true;
      if constexpr (requires { options->launch; }) is_one_that_prints = prints(argc, argv, options->launch);
      if (is_one_that_prints) std::fputs(options->effective.c_str(), stdout);
      std::fflush(stdout);  // before other processes print
    }
    body(*options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace examples
