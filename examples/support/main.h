#pragma once

#include <cstdio>
#include <exception>

namespace tendril::rpc {
struct LaunchOptions;
}

/// What main does in each of the examples.
namespace examples {

/// Is this the process that prints: the one that starts the others, or rank 0 of those that were started together?
/// In a worker that was spawned (rpc::worker_main) it does not return.
bool prints(int argc, char** argv, const tendril::rpc::LaunchOptions& launch);

/// `body(options)` with what `parse(argc, argv, status)` makes of the command line; before, the flags are printed as
/// they are in the end, if options have them (`effective`). Returns the program's status: that of flags which end it,
/// 1 where something is thrown, whose text goes to standard error.
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
