// Parses TENDRIL_SIMULATE and simulates a program that calls rpc::launch.
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/simulated_launch.h"
#include "tendril/rpc/simulation.h"
#include "tendril/rpc/spawn.h"

namespace tendril::rpc::detail {
namespace {

struct Settings {
  SimulationOptions options;
  std::string transcript;  // file name; empty: none
};

constexpr const char* kExpected = "expected for example seed=7,faults=harsh,transcript=FILE";

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
    } else {
      throw UsageError("TENDRIL_SIMULATE: unknown setting '" + std::string(name) + "', " + kExpected);
    }
  }
  return settings;
}

void launch(const std::string& text, int world_size, const std::function<int(WorkerId)>& run) {
  Settings settings = parse(text);
  settings.options.world_size = world_size;
  std::ofstream transcript;
  if (!settings.transcript.empty()) {
    transcript.open(settings.transcript);
    TENDRIL_CHECK_AS(UsageError, transcript, "TENDRIL_SIMULATE: cannot write the transcript to ", settings.transcript);
  }
  const SimulationReport report = simulate(settings.options, [&](WorkerId rank) {
    const int result = run(rank);
    TENDRIL_CHECK_AS(RpcError, result == 0, "the function returned ", result);
  });
  if (transcript.is_open()) {
    transcript << report.transcript << std::flush;
    TENDRIL_CHECK_AS(RpcError, transcript, "TENDRIL_SIMULATE: cannot write the transcript to ", settings.transcript);
  }
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
