#pragma once

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tendril/rpc/error.h"
#include "tendril/rpc/spawn.h"
#include "tests/wait_until.h"

/// Helpers for the programs that tests start as workers.
namespace scenario {

/// Writes the line with one call, so that the lines of several processes do not mix.
inline void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}

inline std::string name_of(int rank) {
  std::string name("w");
  return name.append(std::to_string(rank));
}

/// Returns the type and text of the error that `run` ends with, or "no error".
inline std::string outcome_of(const std::function<void()>& run) {
  try {
    run();
    return "no error";
  } catch (const tendril::rpc::PeerLostError& e) {
    return std::string(e.may_have_run() ? "PeerLostError (may have run): " : "PeerLostError: ") + e.what();
  } catch (const tendril::rpc::TimeoutError& e) {
    return std::string("TimeoutError: ") + e.what();
  } catch (const tendril::rpc::SpawnError& e) {
    return "SpawnError of rank " + std::to_string(e.rank()) + ": " + e.what();
  } catch (const std::exception& e) {
    return std::string("error: ") + e.what();
  }
}

/// Runs one worker of a group, whose rank is in the environment variable RANK, and prints the outcome.
inline int by_hand(void (*run)(const std::string&)) {
  const std::string name = name_of(std::atoi(std::getenv("RANK")));
  const std::string error = outcome_of([&] { run(name); });
  say(name + ": " + error);
  return 0;
}

/// Files in the folder HOSTS_FOLDER, by which workers and the script that starts them report their progress.
inline std::filesystem::path sign(const std::string& name) {
  return std::filesystem::path(std::getenv("HOSTS_FOLDER")) / name;
}
inline void give_sign(const std::string& name) { std::ofstream(sign(name)).flush(); }
inline void await_sign(const std::string& name) {
  tendril::test::wait_until(
      "the file " + name, [file = sign(name)] { return std::filesystem::exists(file); }, std::chrono::seconds(120));
}

}  // namespace scenario
