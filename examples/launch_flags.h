#pragma once

#include <tendril/rpc/launch.h>

#include <CLI/CLI.hpp>
#include <string>

/// What the examples share: the flags of a process that is started by hand. Under a launcher none is needed.
namespace examples {

inline void add_launch_flags(CLI::App& app, tendril::rpc::LaunchOptions& options) {
  const auto number = [](int low, int high) {  // CLI::Range would print the bounds as floating-point numbers
    return CLI::Validator(
        [low, high](std::string& text) {
          int value = 0;
          if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
          return "expected an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", got " + text;
        },
        "");
  };
  app.add_option_function<int>(
         "--rank", [&options](int rank) { options.rank = rank; },
         "Be this rank of a group that is started by hand, one process each")
      ->check(number(0, 4095));
  app.add_option("--master-addr", options.master_addr, "Where rank 0 listens (with --rank)")->default_str("127.0.0.1");
  app.add_option_function<int>(
         "--master-port", [&options](int port) { options.master_port = port; }, "Where rank 0 listens (with --rank)")
      ->default_str("29500")
      ->check(number(1, 65535));
}

}  // namespace examples
