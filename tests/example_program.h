#pragma once

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/contains.h"

/// Tests of an example as it is run: the real program (EXAMPLE_PROGRAM), with real processes.
namespace tendril::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A fixture: runs programs in a folder that is each test case's own.
struct ExampleProgram {
  std::filesystem::path folder;

  ExampleProgram() {
    std::string name = (std::filesystem::temp_directory_path() / "tendril_example_XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
    for (const char* variable : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(variable);
  }
  ~ExampleProgram() { std::filesystem::remove_all(folder); }
  ExampleProgram(const ExampleProgram&) = delete;
  ExampleProgram& operator=(const ExampleProgram&) = delete;

  struct Result {
    int status;  ///< of exit; -1: killed
    std::string out, err;
  };

  /// The shell's words for the program with these flags; it is killed if it hangs.
  static std::string program(const std::string& flags) { return "timeout -k 5 200 '" EXAMPLE_PROGRAM "' " + flags; }

  Result shell(const std::string& command) const {
    const std::string all = "cd '" + folder.string() + "' && { " + command + "; } >stdout 2>stderr </dev/null";
    const int status = std::system(all.c_str());
    Result result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(folder / "stdout"),
                  read_file(folder / "stderr")};
    BOOST_TEST_MESSAGE(result.out << result.err);
    BOOST_TEST_INFO("standard error: " << result.err);  // printed if the next check fails
    return result;
  }

  Result run(const std::string& flags) const { return shell(program(flags)); }

  /// Runs the program until its output, in the file `log`, has a line that matches `pattern`, and then stops it.
  Result run_and_stop(const std::string& flags, const std::string& pattern) const {
    std::filesystem::remove(folder / "log");
    return shell("'" EXAMPLE_PROGRAM "' " + flags + " > log & pid=$!; until grep -q '" + pattern +
                 "' log 2>/dev/null || ! kill -0 $pid; do sleep 0.01; done; kill -TERM $pid; wait $pid; status=$?; cat "
                 "log; exit "
                 "$status");
  }

  /// Sums of oneDNN's gradients depend on the number of threads, which also poll, and busy cores do not bear that.
  static void use_one_thread() { setenv("OMP_NUM_THREADS", "1", 1); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
};

}  // namespace tendril::test
