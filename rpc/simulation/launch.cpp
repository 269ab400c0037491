// Parses TENDRIL_SIMULATE and simulates a program that calls rpc::launch.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/simulation.h"
#include "tendril/rpc/spawn.h"

namespace tendril::rpc::detail {
namespace {

struct Settings {
  SimulationOptions options;
  std::string transcript, page;  // file names; empty: none
};

constexpr const char* kExpected = "expected for example seed=7,faults=harsh,transcript=FILE,page=FILE";
constexpr std::size_t kPageEvents = 20'000;

template <class T>
T number(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TENDRIL_CHECK_AS(UsageError, error == std::errc() && end == text.data() + text.size(), "TENDRIL_SIMULATE: ", name,
                   " must be a number, got '", text, "'");
  return value;
}

Settings parse(std::string_view text) {
  Settings settings;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    TENDRIL_CHECK_AS(UsageError, equals != std::string_view::npos, "TENDRIL_SIMULATE: got '", one, "', ", kExpected);
    const std::string_view name = one.substr(0, equals), value = one.substr(equals + 1);
    if (name == "seed") {
      settings.options.seed = number<uint64_t>(name, value);
    } else if (name == "faults") {
      TENDRIL_CHECK_AS(UsageError, value == "none" || value == "calm" || value == "harsh",
                       "TENDRIL_SIMULATE: faults must be none, calm or harsh, got '", value, "'");
      if (value != "none") settings.options.faults = value == "calm" ? Faults::calm() : Faults::harsh();
    } else if (name == "transcript") {
      settings.transcript = value;
      settings.options.keep_transcript = true;
    } else if (name == "page") {
      settings.page = value;
      settings.options.keep_events = kPageEvents;
    } else {
      throw UsageError("TENDRIL_SIMULATE: unknown setting '" + std::string(name) + "', " + kExpected);
    }
  }
  return settings;
}

/// A file that is written after the simulation. It is opened before it, so that an invalid name fails at once.
class Output {
 public:
  /// Throws UsageError. An empty name writes nothing.
  Output(const char* what, const std::string& name) : what_(what), name_(name) {
    if (name.empty()) return;
    errno = 0;
    file_.open(name);
    TENDRIL_CHECK_AS(UsageError, file_, message());
  }
  bool wanted() const noexcept { return !name_.empty(); }
  /// Throws RpcError.
  void write(const std::string& text) {
    errno = 0;
    file_ << text << std::flush;
    TENDRIL_CHECK_AS(RpcError, file_, message());
  }

 private:
  std::string message() const {
    return std::string("TENDRIL_SIMULATE: ") + what_ + ": cannot write '" + name_ + "'" +
           (errno != 0 ? ": " + std::system_category().message(errno) : "");
  }

  const char* const what_;
  const std::string name_;
  std::ofstream file_;
};

void launch(const std::string& text, int world_size, const std::function<int(WorkerId)>& run) {
  Settings settings = parse(text);
  settings.options.world_size = world_size;
  Output transcript("transcript", settings.transcript), page("page", settings.page);
  const SimulationReport report = simulate(settings.options, [&](WorkerId rank) {
    const int result = run(rank);
    TENDRIL_CHECK_AS(RpcError, result == 0, "the function returned ", result);
  });
  if (transcript.wanted()) transcript.write(report.transcript);
  if (page.wanted()) page.write(report.page());
  std::fputs(("rpc::simulate: " + report.text()).c_str(), stderr);
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const SimulationReport::Rank& one = report.ranks[rank];
    if (one.returned || one.killed) continue;
    throw SpawnError("rpc::simulate: with TENDRIL_SIMULATE=" + text + " worker " + std::to_string(rank) +
                         (one.error.empty() ? " did not return" : " failed: " + one.error),
                     static_cast<int>(rank));
  }
}

const bool registered = [] {
  simulate_launch = &launch;
  return true;
}();

}  // namespace
}  // namespace tendril::rpc::detail

/// Programs that link this library refer to this symbol, so that the linker does not drop the library as unused.
extern "C" __attribute__((visibility("default"))) const int tendril_simulation_is_linked = 1;
