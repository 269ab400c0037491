#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

/// Real processes for tests. Every wait has a deadline; nothing outlives its object.
namespace tendril::test {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

/// How a process ended.
struct Ended {
  int code = -1;   ///< exit code, or -1
  int signal = 0;  ///< the signal that killed it, or 0
};

/// Makes orphaned descendants children of this process, so that it can wait for their end.
inline void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

/// Waits until the child has ended and reaps it. Throws after `limit`.
inline Ended wait_for_end(pid_t pid, std::chrono::milliseconds limit = 60s) {
  const auto deadline = SteadyClock::now() + limit;
  for (;;) {
    int status = 0;
    const pid_t got = ::waitpid(pid, &status, WNOHANG);
    if (got == pid) return WIFSIGNALED(status) ? Ended{-1, WTERMSIG(status)} : Ended{WEXITSTATUS(status), 0};
    // ECHILD: for a moment, an orphan still belongs to its dead parent.
    if (got < 0 && (errno != ECHILD || ::kill(pid, 0) != 0))
      throw std::runtime_error("no child process " + std::to_string(pid));
    if (SteadyClock::now() > deadline) throw std::runtime_error("process " + std::to_string(pid) + " did not end");
    ::poll(nullptr, 0, 2);
  }
}

/// Stops a process and waits until it has stopped.
inline void stop(pid_t pid) {
  ::kill(pid, SIGSTOP);
  const auto deadline = SteadyClock::now() + 60s;
  for (std::string state; state != "T"; ::poll(nullptr, 0, 1)) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string skipped;
    status >> skipped >> skipped >> state;  // "PID (program) STATE ...", the program's name without spaces
    if (SteadyClock::now() > deadline) throw std::runtime_error("process " + std::to_string(pid) + " did not stop");
  }
}

/// A running program and the lines that it prints. The destructor kills it.
class Process {
 public:
  /// `arguments[0]` is the program's path; `variables` ("NAME=value") are added to the environment.
  explicit Process(std::vector<std::string> arguments, std::vector<std::string> variables = {}) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    output_ = ends[0];
    std::vector<char*> argv, envp;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (std::string& variable : variables) envp.push_back(variable.data());
    for (char** entry = environ; *entry != nullptr; ++entry) envp.push_back(*entry);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    const int error = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error != 0) throw std::runtime_error(arguments[0] + ": " + std::strerror(error));
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), output_(std::exchange(other.output_, -1)), text_(std::move(other.text_)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (output_ >= 0) ::close(output_);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }

  /// The next line of output, without its end. Throws after `limit` or at the end of the output.
  std::string line(std::chrono::milliseconds limit = 60s) {
    const auto deadline = SteadyClock::now() + limit;
    std::size_t end;
    while ((end = text_.find('\n')) == std::string::npos)
      if (!read_more(deadline)) throw std::runtime_error("no further line; read so far: '" + text_ + "'");
    std::string result = text_.substr(0, end);
    text_.erase(0, end + 1);
    return result;
  }
  /// Returns the output that line() has not read, once every process that holds the output has closed it.
  std::string rest(std::chrono::milliseconds limit = 60s) {
    const auto deadline = SteadyClock::now() + limit;
    while (read_more(deadline)) {
    }
    return std::exchange(text_, {});
  }
  Ended wait(std::chrono::milliseconds limit = 60s) {
    const Ended ended = wait_for_end(pid_, limit);
    pid_ = -1;
    return ended;
  }

 private:
  bool read_more(SteadyClock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    pollfd fd{output_, POLLIN, 0};
    if (left <= 0 || ::poll(&fd, 1, static_cast<int>(left)) <= 0)
      throw std::runtime_error("no output in time; read so far: '" + text_ + "'");
    char buffer[4096];
    const ssize_t n = ::read(output_, buffer, sizeof buffer);
    if (n > 0) text_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }

  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

}  // namespace tendril::test
