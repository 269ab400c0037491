#include "report.h"

#include <tendril/rpc/call.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "latency.h"

namespace cartpole {
namespace {

constexpr double kSecondsBetweenFrames = 0.1;
constexpr int kBarWidth = 30;

/// Returns the q-quantile, or 0 if there are no values.
double quantile(std::vector<float>& values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace

Report::Report(const Options& options) : options_(options), terminal_(isatty(STDOUT_FILENO) != 0) {}

Report::~Report() { clear_live_line(); }

double Report::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Report::episode(const std::pair<double, std::size_t>& reward_and_steps) {
  const auto [reward, steps] = reward_and_steps;
  const double running_reward = 0.05 * reward + (1 - 0.05) * (points_.empty() ? 0 : points_.back().running_reward);
  steps_ += static_cast<std::int64_t>(steps);
  const int number = episodes() + 1;
  points_.push_back({number, reward, running_reward, steps_, seconds()});
  if (number % options_.log_interval == 0) {
    clear_live_line();
    std::printf("Episode %d\tLast reward: %.2f\tAverage reward: %.2f\n", number, reward, running_reward);
    std::fflush(stdout);
  }
  if (terminal_ && points_.back().seconds >= next_live_) {
    next_live_ = points_.back().seconds + kSecondsBetweenFrames;
    live_line();
  }
}

void Report::live_line() {
  const examples::CurvePoint& now = points_.back();
  const int filled = static_cast<int>(kBarWidth * std::clamp(now.running_reward / kRewardThreshold, 0.0, 1.0));
  std::string bar(static_cast<std::size_t>(filled), '#');
  bar.resize(kBarWidth, '.');
  std::printf("\r\x1b[K[%s] %.0f of %.0f  episode %d  %.0f steps/s  %.1f s", bar.c_str(), now.running_reward,
              kRewardThreshold, now.episode, static_cast<double>(steps_) / std::max(now.seconds, 1e-9), now.seconds);
  std::fflush(stdout);
}

void Report::clear_live_line() {
  if (!terminal_) return;
  std::printf("\r\x1b[K");
  std::fflush(stdout);
}

void Report::finish() {
  clear_live_line();
  const double time = points_.empty() ? seconds() : points_.back().seconds;
  const double running = points_.empty() ? 0 : points_.back().running_reward;
  const double rate = 1 / std::max(time, 1e-9);
  if (solved())
    std::printf("Solved! Running reward is now %.2f!\n", running);
  else
    std::printf("Not solved: the running reward is %.2f after %zu episodes.\n", running, points_.size());
  std::printf("\n");
  std::printf("  %-22s%.2f s, %zu episodes, %lld environment steps\n", solved() ? "time to solve" : "time", time,
              points_.size(), static_cast<long long>(steps_));
  std::printf("  %-22s%.0f\n", "environment steps/s", static_cast<double>(steps_) * rate);
  if (options_.world_size > 1) {
    std::vector<float> calls;  // the latest calls of all observers
    std::int64_t number = 0;
    for (int rank = 1; rank < options_.world_size; ++rank) {
      number += tendril::rpc::rpc_sync<&examples::timed_calls>(rank);
      std::ranges::copy(tendril::rpc::rpc_sync<&examples::call_latencies>(rank), std::back_inserter(calls));
    }
    const double agent_calls = static_cast<double>(episodes()) * (options_.world_size - 1);
    std::printf("  %-22s%.0f\n", "RPCs/s", (static_cast<double>(number) + agent_calls) * rate);
    std::printf("  %-22sp50 %.1f us, p99 %.1f us\n", "call latency", quantile(calls, 0.5), quantile(calls, 0.99));
  }
  const std::string csv = options_.curve + ".csv";
  const std::string svg = options_.curve + ".svg";
  examples::write_file(csv, examples::curve_csv(points_));
  examples::write_file(svg, examples::curve_svg(points_, kRewardThreshold,
                                                "CartPole-v1, world size " + std::to_string(options_.world_size) +
                                                    ", seed " + std::to_string(options_.seed)));
  std::printf("  %-22s%s\n  %-22s%s\n", "learning curve", std::filesystem::absolute(svg).c_str(), "",
              std::filesystem::absolute(csv).c_str());
  std::fflush(stdout);
}

}  // namespace cartpole
