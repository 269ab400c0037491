// Runs workloads with many seeds:
//   campaign WORKLOAD FIRST_SEED LAST_SEED [OPTION]
// Prints each seed that breaks an invariant, a summary, and a line "ledger WORKLOAD FIRST_SEED LAST_SEED FAILURES".
// Exits with status 1 if a seed breaks an invariant, and with status 2 if an argument is wrong. Options:
//   transcript  also prints each transcript
//   digests     also prints a line "digest SEED DIGEST" for each seed
//   first       ends at the first seed that breaks an invariant
//   page=FILE   writes the page that steps through the messages of a single seed
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tests/simulation/workload.h"

namespace {

/// Throws std::invalid_argument unless the whole text is a number from 0 to 2^64 - 1.
uint64_t seed_of(const char* what, const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seed);
  if (error != std::errc{} || stop != end)
    throw std::invalid_argument(std::string(what) + ": expected a number from 0 to 2^64 - 1, got '" + text + "'");
  return seed;
}

void write_page(const std::string& name, const simulated::SimulationReport& report) {
  errno = 0;
  std::ofstream file(name);
  file << report.page();
  file.close();
  if (!file) throw std::runtime_error("page: cannot write '" + name + "': " + std::system_category().message(errno));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string option = argc == 5 ? argv[4] : "";
  const std::string page = option.starts_with("page=") ? option.substr(5) : "";
  const bool is_known =
      option.empty() || option == "transcript" || option == "digests" || option == "first" || !page.empty();
  if (argc < 4 || argc > 5 || !is_known) {
    std::fprintf(
        stderr,
        "usage: %s WORKLOAD FIRST_SEED LAST_SEED [transcript | digests | first | page=FILE]\nworkloads:", argv[0]);
    for (const auto& one : simulated::workloads()) std::fprintf(stderr, " %s", one.name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const simulated::Workload& workload = simulated::workload(argv[1]);
  const uint64_t first = seed_of("FIRST_SEED", argv[2]), last = seed_of("LAST_SEED", argv[3]);
  if (first > last)
    throw std::invalid_argument("LAST_SEED: expected at least FIRST_SEED, " + std::to_string(first) + ", got " +
                                std::to_string(last));
  if (!page.empty() && first != last)
    throw std::invalid_argument("page: expected a single seed, got " + std::to_string(first) + " to " +
                                std::to_string(last));
  const bool transcript = option == "transcript";
  const auto begin = std::chrono::steady_clock::now();
  uint64_t failures = 0, segments = 0, steps = 0;
  std::map<std::string, uint64_t> faults, seeds_with;
  for (uint64_t done = 0; done <= last - first; ++done) {
    const uint64_t seed = first + done;  // `last` may be the greatest number
    const simulated::Outcome outcome =
        simulated::run(workload, seed, {.transcript = transcript, .events = page.empty() ? 0u : 20'000u});
    if (!page.empty()) write_page(page, outcome.report);
    if (transcript) std::fputs(outcome.report.transcript.c_str(), stdout);
    if (option == "digests")
      std::printf("digest %llu %llu\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(outcome.report.digest));
    if (first == last) std::fputs(outcome.report.text().c_str(), stdout);
    segments += outcome.report.segments;
    steps += outcome.report.steps;
    for (const auto& [what, times] : outcome.report.faults) {
      faults[what] += times;
      ++seeds_with[what];
    }
    if (outcome.problems.empty()) continue;
    ++failures;
    std::printf("%s, seed %llu:\n", workload.name.c_str(), static_cast<unsigned long long>(seed));
    for (const std::string& problem : outcome.problems) std::printf("  %s\n", problem.c_str());
    std::fflush(stdout);
    if (option == "first") return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%s: seeds %llu to %llu, %llu failures; %.1f s, %.0f segments/s, %.0f steps/s;", workload.name.c_str(),
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(last),
              static_cast<unsigned long long>(failures), seconds, static_cast<double>(segments) / seconds,
              static_cast<double>(steps) / seconds);
  for (const auto& [what, times] : seeds_with)
    std::printf(" %s in %.0f%%", what.c_str(),
                100.0 * static_cast<double>(times) / static_cast<double>(last - first + 1));
  std::printf("\nledger %s %llu %llu %llu\n", workload.name.c_str(), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(last), static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 2;
}
