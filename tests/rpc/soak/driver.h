#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/rpc/soak/usage.h"

namespace soak {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

inline constexpr int kWorkers = 4, kSurvivors = 2;  ///< the others are killed and restarted
inline constexpr std::chrono::milliseconds kLiveness = 1500ms, kGrace = 3000ms;

inline std::string name_of(int rank) { return std::string("w").append(std::to_string(rank)); }

/// Sends one line to the driver.
inline void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::_Exit(3);
}

/// Starts the workers, injects faults and checks the results. Uses one thread.
class Driver {
 public:
  Driver(std::string program, double seconds, uint64_t seed)
      : program_(std::move(program)), seconds_(seconds), seed_(seed), random_(seed) {
    ::signal(SIGPIPE, SIG_IGN);          // from pipes to dead workers
    char folder[] = "/tmp/soak-XXXXXX";  // socket paths must be short
    if (::mkdtemp(folder) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = folder;
    ::setenv("XDG_RUNTIME_DIR", folder, 1);
    std::ofstream(folder_ + "/key") << std::random_device{}() << std::random_device{}() << std::random_device{}();
    std::filesystem::permissions(folder_ + "/key", std::filesystem::perms(0600));
  }
  ~Driver() {
    for (Child& child : children_) end(child);
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Returns whether all checks passed. Prints failures to standard error.
  bool run() {
    std::printf("soak: %g s, seed %llu\n", seconds_, static_cast<unsigned long long>(seed_));
    std::fflush(stdout);
    for (int rank = 0; rank < kWorkers; ++rank) start(rank);
    if (!await("listens", 60s)) return false;
    trouble();
    for (Child& child : children_) go_on(child);
    for (int rank = 0; rank < kWorkers; ++rank) {
      if (children_[static_cast<std::size_t>(rank)].pid < 0) start(rank);
    }
    const bool all = await("listens", 60s) && ask("stop", "stopped") && ask("compare", "compared") &&
                     ask("rest", "result") && leave();
    const std::string figures = judge();
    std::printf("soak: %g s, seed %llu: %s; %zu failures\n", seconds_, static_cast<unsigned long long>(seed_),
                figures.c_str(), failures_);
    return all && failures_ == 0;
  }

 private:
  struct Child {
    pid_t pid = -1;
    int in = -1, out = -1, generation = -1;
    std::string text = {}, said = {}, endpoint = {};  // output not parsed yet, last line, address
    bool listens = false;
    SteadyClock::time_point stopped_until = {}, restart_at = {};  // {}: neither is due
  };

  void fail(const std::string& what) {
    ++failures_;
    std::cerr << "soak: " << what << " (seed " << seed_ << ")\n";
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  int rank_of(const Child& child) const { return static_cast<int>(&child - children_.data()); }

  // ---- processes

  void start(int rank) {
    Child& child = children_[static_cast<std::size_t>(rank)];
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const int generation = child.generation + 1;
    const std::array<std::string, 6> words = {
        program_,
        "worker",
        std::to_string(rank),
        std::to_string(generation),
        std::to_string(seed_ * 1000 + static_cast<uint64_t>(generation * 10 + rank)),
        folder_ + "/key"};
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::signal(SIGPIPE, SIG_DFL);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      ::execl("/proc/self/exe", words[0].c_str(), words[1].c_str(), words[2].c_str(), words[3].c_str(),
              words[4].c_str(), words[5].c_str(), nullptr);
      std::_Exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    child = Child{.pid = pid, .in = in[1], .out = out[0], .generation = generation};
  }

  static void close_pipes(Child& child) {
    if (child.in >= 0) ::close(child.in);
    if (child.out >= 0) ::close(child.out);
    child.in = child.out = -1;
  }

  void end(Child& child) {
    if (child.pid > 0) {
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
    close_pipes(child);
    child = Child{.generation = child.generation};
  }

  static void tell(const Child& child, const std::string& line) {
    const std::string text = line + "\n";
    // It has died, which listen() detects.
    if (child.in >= 0 && ::write(child.in, text.data(), text.size()) < 0) return;
  }

  /// A new worker dials all workers that listen already. They learn its rank and generation.
  void listens(Child& child) {
    child.listens = true;
    child.endpoint = child.said.substr(child.said.find(' ') + 1);
    const std::string me = "peer " + std::to_string(rank_of(child)) + " " + std::to_string(child.generation);
    tell(child, me);
    for (const Child& other : children_) {
      if (&other == &child || !other.listens) continue;
      tell(child,
           "peer " + std::to_string(rank_of(other)) + " " + std::to_string(other.generation) + " " + other.endpoint);
      tell(other, me);
    }
    tell(child, "start");
  }

  /// Reads the workers' output for a while and detects dead workers.
  void listen(std::chrono::milliseconds time) {
    std::array<pollfd, kWorkers> fds{};
    for (std::size_t i = 0; i < fds.size(); ++i) fds[i] = {children_[i].out, POLLIN, 0};
    if (::poll(fds.data(), fds.size(), static_cast<int>(time.count())) <= 0) return;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      Child& child = children_[i];
      std::array<char, 4096> buffer;
      const ssize_t got = ::read(child.out, buffer.data(), buffer.size());
      if (got <= 0) {
        died(child);
        continue;
      }
      child.text.append(buffer.data(), static_cast<std::size_t>(got));
      for (std::size_t line; (line = child.text.find('\n')) != std::string::npos; child.text.erase(0, line + 1)) {
        child.said = child.text.substr(0, line);
        if (child.said.starts_with("listens")) listens(child);
      }
    }
  }

  void died(Child& child) {
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (leaving_ && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      child.said = "left";
    } else {
      fail(name_of(rank_of(child)) + " ended unexpectedly with " +
           (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                : "status " + std::to_string(WEXITSTATUS(status))));
    }
    close_pipes(child);
    child.pid = -1;
    child.listens = false;
  }

  // ---- faults

  void kill(Child& child) {
    end(child);
    child.restart_at = SteadyClock::now() + std::chrono::milliseconds(below(500));
    ++kills_;
  }
  void stop(Child& child, bool briefly) {
    ::kill(child.pid, SIGSTOP);
    // After a brief stop, a worker is not lost unless the machine is busy. A long stop ends its sessions.
    const auto time = briefly ? std::chrono::milliseconds(20 + below(600)) : kGrace + kLiveness;
    child.stopped_until = SteadyClock::now() + time;
    ++(briefly ? short_stops_ : long_stops_);
  }
  static void go_on(Child& child) {
    if (child.pid > 0) ::kill(child.pid, SIGCONT);
    child.stopped_until = {};
  }

  void trouble() {
    const auto begun = SteadyClock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(SteadyClock::now() - begun).count(); };
    const int pause_ms = std::clamp(static_cast<int>(seconds_ * 100), 100, 1000);  // mean time between two faults
    auto next = begun, next_sample = begun;
    while (seconds() < seconds_ && failures_ == 0) {
      listen(10ms);
      const auto now = SteadyClock::now();
      for (Child& child : children_) {
        if (child.stopped_until != SteadyClock::time_point{} && child.stopped_until <= now) go_on(child);
        if (child.restart_at != SteadyClock::time_point{} && child.restart_at <= now) start(rank_of(child));
      }
      if (next_sample <= now) {
        for (std::size_t rank = 0; rank < kSurvivors; ++rank) usage_[rank].look(children_[rank].pid, seconds());
        next_sample = now + 200ms;
      }
      if (next > now) continue;
      next = now + std::chrono::milliseconds(pause_ms / 2 + below(pause_ms));
      const auto stopped = std::count_if(children_.begin(), children_.end(), [](const Child& child) {
        return child.stopped_until != SteadyClock::time_point{};
      });
      const int what = kills_ == 0 ? 0 : below(8);
      Child& victim =
          children_[static_cast<std::size_t>(what < 3 ? kSurvivors + below(kWorkers - kSurvivors) : below(kWorkers))];
      if (victim.pid < 0 || victim.stopped_until != SteadyClock::time_point{}) continue;
      if (what < 3) {
        kill(victim);
      } else if (stopped < 2) {
        stop(victim, what < 7);
      }
    }
  }

  // ---- the end

  /// Waits until every worker has printed a line that begins with `word`.
  bool await(const std::string& word, std::chrono::seconds patience) {
    const auto deadline = SteadyClock::now() + patience;
    const auto has_said = [&](const Child& child) {
      return child.said.starts_with(word) || (word == "listens" && child.listens);
    };
    while (!std::all_of(children_.begin(), children_.end(), has_said)) {
      if (failures_ > 0) return false;
      if (SteadyClock::now() > deadline) {
        for (const Child& child : children_) {
          if (has_said(child)) continue;
          fail(name_of(rank_of(child)) + " did not reach '" + word + "': its status follows");
          if (child.pid > 0) ::kill(child.pid, SIGUSR1);
        }
        listen(3s);  // lets them print it
        return false;
      }
      listen(20ms);
    }
    return true;
  }
  bool ask(const std::string& what, const std::string& answer) {
    for (const Child& child : children_) tell(child, what);
    return await(answer, 180s);
  }
  bool leave() {
    for (const Child& child : children_) results_.push_back(child.said);
    leaving_ = true;
    return ask("leave", "left");
  }

  std::string judge() {
    std::array<uint64_t, 10> sum{};
    for (std::size_t rank = 0; rank < results_.size(); ++rank) {
      std::istringstream words(results_[rank]);
      std::string word, verdict;
      words >> word >> verdict;
      if (verdict != "good") fail(name_of(static_cast<int>(rank)) + ": " + results_[rank]);
      for (uint64_t& one : sum) {
        uint64_t number = 0;
        words >> number;
        one += number;
      }
    }
    std::ostringstream text;
    text << kills_ << " killed, " << short_stops_ << " stopped briefly, " << long_stops_ << " for long, " << sum[8]
         << " connections cut; " << sum[0] << " calls answered, " << sum[1] << " may have run, " << sum[2]
         << " have not, " << sum[3] << " timed out, " << sum[4] << " cancelled, " << sum[5] << " failed otherwise; "
         << sum[6] << " compared with the callee, " << sum[7] << " too old, " << sum[9] << " wrong";
    for (int rank = 0; rank < kSurvivors; ++rank) {
      const Usage& usage = usage_[static_cast<std::size_t>(rank)];
      text << "; " << name_of(rank) << " " << usage.text(seconds_);
      if (seconds_ >= kShortest && usage.grows(seconds_)) fail(name_of(rank) + " grows: " + usage.text(seconds_));
    }
    if (sum[0] == 0 || sum[6] == 0) fail("nothing was tested");
    return text.str();
  }

  static constexpr double kShortest = 30;  // s; in shorter runs, a quarter is too short to judge memory

  const std::string program_;
  const double seconds_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  std::string folder_;
  std::array<Child, kWorkers> children_;
  std::array<Usage, kSurvivors> usage_;
  std::vector<std::string> results_;
  int kills_ = 0, short_stops_ = 0, long_stops_ = 0;
  std::size_t failures_ = 0;
  bool leaving_ = false;
};

}  // namespace soak
