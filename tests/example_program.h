#pragma once

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>

#include "tests/contains.h"
#include "tests/rpc/process.h"

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
    int status;  ///< exit status; for a killed program 128 + the signal, or -1 if the shell itself was killed
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

  /// Starts the program with these flags in the folder. Its standard error is written to the file `stderr`.
  Process start(const std::string& flags) const {
    return Process({"/bin/sh", "-c",
                    "cd '" + folder.string() + "' && exec '" EXAMPLE_PROGRAM "' " + flags + " 2>stderr </dev/null"});
  }
  /// Reads the output of a started program until `count` lines match the regular expression `pattern`, and returns it.
  /// Throws if the output ends before that, or if no line arrives for a minute.
  static std::string read_until(Process& process, const std::string& pattern, int count = 1) {
    const std::regex wanted(pattern);
    for (std::string out;;) {
      try {
        const std::string line = process.line();
        out += line + '\n';
        if (std::regex_search(line, wanted) && --count == 0) return out;
      } catch (const std::exception& error) {
        throw std::runtime_error("read_until: too few lines of the output match '" + pattern + "': " + error.what() +
                                 '\n' + out);
      }
    }
  }
  /// Runs the program until `count` lines of its output match `pattern`, sends it a signal and waits for its exit.
  Result run_and_signal(int signal, const std::string& flags, const std::string& pattern, int count = 1) const {
    Process process = start(flags);
    std::string out = read_until(process, pattern, count);
    process.signal(signal);
    out += process.rest();
    const Ended ended = process.wait();
    Result result{ended.signal == 0 ? ended.code : 128 + ended.signal, out, read_file(folder / "stderr")};
    BOOST_TEST_MESSAGE(result.out << result.err);
    return result;
  }
  Result run_and_stop(const std::string& flags, const std::string& pattern) const {
    return run_and_signal(SIGTERM, flags, pattern);
  }

  /// Sums of oneDNN's gradients depend on the number of threads, which also poll, and busy cores do not bear that.
  static void use_one_thread() { setenv("OMP_NUM_THREADS", "1", 1); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
};

}  // namespace tendril::test
