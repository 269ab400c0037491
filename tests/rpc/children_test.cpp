// Descriptors and signal masks of processes that handlers start.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "tendril/rpc/observe/metrics_server.h"
#include "tests/rpc/agent_pair.h"

BOOST_AUTO_TEST_SUITE(children)

using namespace rpc_test;

namespace {

enum Function : uint64_t { kShell = 1, kSpawn, kFork };

/// Like BOOST_REQUIRE, but usable on any thread.
void require(bool done) {
  if (!done) throw std::system_error(errno, std::system_category());
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 256> part;
  for (ssize_t n; (n = ::read(descriptor, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  return text;
}

/// Returns the output of a command. `start(arguments, output)` starts the shell that runs it and returns its process.
template <class Start>
std::string output_of(std::string command, const Start& start) {
  std::array<int, 2> ends{};
  require(::pipe2(ends.data(), O_CLOEXEC) == 0);
  std::string shell = "sh", flag = "-c";
  std::array<char*, 4> arguments{shell.data(), flag.data(), command.data(), nullptr};
  const pid_t child = start(arguments.data(), ends[1]);
  ::close(ends[1]);
  std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  require(::waitpid(child, &status, 0) == child);
  return text;
}

std::string by_shell(const std::string& command) {
  std::FILE* const output = ::popen(command.c_str(), "re");
  require(output != nullptr);
  std::string text = read_all(::fileno(output));
  ::pclose(output);
  return text;
}
std::string by_spawn(const std::string& command) {
  return output_of(command, [](char** arguments, int output) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    pid_t child = -1;
    require(::posix_spawn(&child, "/bin/sh", &actions, nullptr, arguments, environ) == 0);
    ::posix_spawn_file_actions_destroy(&actions);
    return child;
  });
}
std::string by_fork(const std::string& command) {
  return output_of(command, [](char** arguments, int output) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(output, STDOUT_FILENO);
      ::execv("/bin/sh", arguments);
      ::_exit(127);
    }
    return child;
  });
}

const Functions& functions() {
  static const Functions table([](Functions& f) {
    f.add(kShell, "shell", [](InboundCall& inbound) { inbound.reply(reply(by_shell(text(inbound.request())))); });
    f.add(kSpawn, "spawn", [](InboundCall& inbound) { inbound.reply(reply(by_spawn(text(inbound.request())))); });
    f.add(kFork, "fork", [](InboundCall& inbound) { inbound.reply(reply(by_fork(text(inbound.request())))); });
  });
  return table;
}

const std::string blocked_signals = "grep SigBlk /proc/self/status";

std::set<int> open_descriptors() {
  std::set<int> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    open.insert(std::stoi(entry.path().filename().string()));
  }
  return open;
}

}  // namespace

BOOST_AUTO_TEST_CASE(child_processes_inherit_the_programs_signal_mask) {
  sigset_t one, before;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &one, &before);
  {
    AgentPair pair(functions());
    const std::string expected = by_shell(blocked_signals);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);  // does not affect the threads that run functions
    for (const Function how : {kShell, kSpawn, kFork}) {
      BOOST_TEST(text(call(*pair.a, 1, request(how, blocked_signals)).wait()) == expected);
      BOOST_TEST(text(call(*pair.a, 1, request(how, "kill -TERM $$; echo still here")).wait()) == "");
      BOOST_TEST(text(call(*pair.a, 1, request(how, "{ yes 2>&3 | head -n 1; } 3>&1")).wait()) == "y\n");
    }
  }
}

BOOST_AUTO_TEST_CASE(child_processes_inherit_no_connection) {
  for (const bool tcp : {false, true}) {
    const std::set<int> before = open_descriptors();
    AgentPair pair(functions(), {}, tcp);
    const tendril::rpc::detail::MetricsServer server({std::shared_ptr<Agent>(), pair.a.get()}, 0);
    BOOST_TEST(text(call(*pair.a, 1, request(kShell, "echo hello")).wait()) == "hello\n");
    int checked = 0;
    for (const int descriptor : open_descriptors()) {
      const int flags = before.contains(descriptor) ? -1 : ::fcntl(descriptor, F_GETFD);
      if (flags < 0) continue;  // existed before, or has been closed since
      ++checked;
      BOOST_TEST((flags & FD_CLOEXEC) != 0,
                 "inherited: " << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
    }
    BOOST_TEST(checked >= 4);  // two agents and both ends of the connection
  }
}

BOOST_AUTO_TEST_SUITE_END()
