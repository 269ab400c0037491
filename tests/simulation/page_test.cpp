// The events that a simulation records, and its page without a browser.
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/simulation.h"
#include "tests/contains.h"
#include "tests/rpc/error_text.h"
#include "tests/simulation/workload.h"

BOOST_AUTO_TEST_SUITE(page)

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;
using rpc::SimulationEvent;
using rpc::SimulationReport;
using rpc::WorkerId;
using tendril::test::contains;
using tendril::test::text_of_error;

int64_t triple(int64_t x) { return 3 * x; }
std::string echo(std::string text) { return text; }
int64_t fail(int64_t) { throw std::runtime_error("</script><b>no & \"never\""); }

namespace {

SimulationReport record(int world_size, void (*run)(WorkerId), uint64_t seed = 1, const rpc::Faults& faults = {},
                        std::size_t keep_events = 20'000) {
  return rpc::detail::simulate({.world_size = world_size, .seed = seed, .faults = faults, .keep_events = keep_events},
                               run);
}

std::vector<SimulationEvent> of_kind(const SimulationReport& report, std::string_view kind) {
  std::vector<SimulationEvent> found;
  std::ranges::copy_if(report.events, std::back_inserter(found),
                       [&](const SimulationEvent& event) { return event.kind == kind; });
  return found;
}

/// Rank 0 calls the others.
void call_all(WorkerId rank) {
  rpc::init_rpc("w" + std::to_string(rank));
  if (rank == 0) {
    for (WorkerId to = 1; to < 3; ++to) {
      (void)rpc::rpc_sync<&triple>(to, int64_t{to});
      (void)text_of_error([&] { (void)rpc::rpc_sync<&fail>(to, int64_t{to}); });
    }
  }
  rpc::shutdown();
}

/// Each worker calls the next one for some time, even if calls fail.
void call_in_a_circle(WorkerId rank) {
  rpc::init_rpc("w" + std::to_string(rank), {.agent = {.ping_interval = 200ms, .liveness_timeout = 1s}});
  for (int i = 0; i < 40; ++i) {
    try {
      if (rpc::rpc_sync<&triple>((rank + 1) % 3, rpc::CallOptions{.timeout = 1s}, int64_t{i}) != 3 * i) continue;
      (void)rpc::rpc_sync<&echo>((rank + 1) % 3, rpc::CallOptions{.timeout = 1s}, std::string(30'000, 'a'));
      (void)rpc::rpc_sync<&fail>((rank + 1) % 3, rpc::CallOptions{.timeout = 1s}, int64_t{i});
    } catch (const rpc::RpcError&) {
    }
    rpc::sleep_for(50ms);
  }
  rpc::shutdown({.timeout = 10s, .accept_losses = true});
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_call_is_on_the_page) {
  const auto report = record(3, &call_all);
  BOOST_TEST(report.all_returned(), report.text());
  BOOST_TEST(report.events_left_out == 0U);
  const auto requests = of_kind(report, "request"), replies = of_kind(report, "reply"),
             errors = of_kind(report, "error");
  for (int to = 1; to < 3; ++to) {
    const auto between = [&](const std::vector<SimulationEvent>& events, int a, int b, std::string_view text) {
      return std::ranges::count_if(events, [&](const SimulationEvent& event) {
        return event.from == a && event.to == b && event.text.starts_with(text) && event.bytes > 100 &&
               event.call_id > 0 && event.connection > 0 && event.arrival > event.time;
      });
    };
    BOOST_TEST(between(requests, 0, to, "page::triple") == 1);
    BOOST_TEST(between(replies, to, 0, "page::triple") == 1);
    BOOST_TEST(between(requests, 0, to, "page::fail") == 1);
    BOOST_TEST(between(errors, to, 0, "page::fail: ") == 1);
  }
  BOOST_TEST(of_kind(report, "bytes").empty());  // everything was recognized
  BOOST_TEST(
      std::ranges::none_of(report.events, [](const auto& event) { return contains(event.text, "cannot be read"); }));
  BOOST_TEST(std::ranges::count(of_kind(report, "group"), "join", &SimulationEvent::text) == 2);
  BOOST_TEST(of_kind(report, "start").size() == 3U);
  BOOST_TEST(of_kind(report, "return").size() == 3U);
  BOOST_TEST(of_kind(report, "hello").size() >= 4U);
  const std::string page = report.page();
  BOOST_TEST(contains(page, R"({"kind":"request","text":"page::triple","from":0,"to":2,"time":)"));
  BOOST_TEST(contains(page, "<meta name=\"viewport\""));
  BOOST_TEST(!contains(page, "http"));  // it needs no network
}

BOOST_AUTO_TEST_CASE(events_are_not_recorded_by_default) {
  const auto report = rpc::detail::simulate({.world_size = 3}, &call_all);
  BOOST_TEST(report.events.empty());
  BOOST_TEST(contains(report.page(), "no events were recorded: set SimulationOptions::keep_events"));
}

BOOST_AUTO_TEST_CASE(recording_does_not_change_the_run) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    rpc::Faults faults = rpc::Faults::harsh();
    if (seed % 2 == 0) faults.corrupt_byte = 0.01;
    const auto plain = record(3, &call_in_a_circle, seed, faults, 0);
    for (const std::size_t kept : {std::size_t{1}, std::size_t{100}, std::size_t{20'000}}) {
      const auto recorded = record(3, &call_in_a_circle, seed, faults, kept);
      BOOST_TEST(recorded.digest == plain.digest, "seed " << seed);
      BOOST_TEST(recorded.text() == plain.text());
      BOOST_TEST(recorded.events.size() <= kept);
    }
  }
}

/// Runs the campaign program, and returns its output.
std::string campaign(const std::string& arguments) {
  std::FILE* const pipe = ::popen((std::string(TENDRIL_TEST_PROGRAMS "/campaign ") + arguments + " 2>&1").c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  ::pclose(pipe);
  return text;
}

/// A file in the folder for temporary files, removed at the end.
struct TemporaryFile {
  const std::string name =
      (std::filesystem::temp_directory_path() / ("tendril_page_" + std::to_string(::getpid()) + ".html")).string();
  ~TemporaryFile() { std::filesystem::remove(name); }
  std::string text() const {
    std::ifstream file(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

BOOST_AUTO_TEST_CASE(campaign_page_shows_the_same_run) {
  const TemporaryFile file;
  for (const auto& workload : simulated::workloads()) {
    const std::string plain = campaign(workload.name + " 12 12"),
                      paged = campaign(workload.name + " 12 12 page=" + file.name);
    const auto digest = [](const std::string& output) {
      const std::size_t at = output.find("digest ");
      return at == output.npos ? output : output.substr(at, output.find('\n', at) - at);
    };
    BOOST_TEST(digest(plain) == digest(paged), paged);
    BOOST_TEST(contains(file.text(), "<title>Simulation with seed 12</title>"));
  }
  BOOST_TEST(contains(campaign("calls 1 2 page=" + file.name), "page: expected a single seed, got 1 to 2"));
  BOOST_TEST(contains(campaign("calls 1 1 page=/no/such/page.html"),
                      "page: cannot write '/no/such/page.html': No such file or directory"));
}

BOOST_AUTO_TEST_CASE(launched_program_writes_its_page) {
  const TemporaryFile file;
  const auto simulated = [](const std::string& settings) {
    ::setenv("TENDRIL_SIMULATE", settings.c_str(), 1);
    std::string error = text_of_error([] {
      rpc::detail::launch_simulated(3, [](WorkerId rank) {
        call_all(rank);
        return 0;
      });
    });
    ::unsetenv("TENDRIL_SIMULATE");
    return error;
  };
  BOOST_TEST(simulated("seed=3,page=" + file.name) == "");
  BOOST_TEST(contains(file.text(), "page::triple"));
  BOOST_TEST(contains(file.text(), "<title>Simulation with seed 3</title>"));
  BOOST_TEST(contains(simulated("page=/no/such/page.html"),
                      "TENDRIL_SIMULATE: page: cannot write '/no/such/page.html': No such file or directory"));
}

BOOST_AUTO_TEST_CASE(hostile_texts_are_escaped) {
  const auto report = record(1, [](WorkerId) { throw std::runtime_error("</script><b>\\\"&\n\x01\xff"); });
  const std::string page = report.page();
  BOOST_TEST(!contains(page, "</script><b>"));
  BOOST_TEST(contains(page, R"(throws \u003c/script>\u003cb>\\\"&\u000a\u0001)"));
  BOOST_TEST(contains(page, "&lt;/script>&lt;b>"));  // in the summary
}

BOOST_AUTO_TEST_CASE(middle_of_long_run_is_omitted) {
  const auto all = record(3, &call_all), few = record(3, &call_all, 1, {}, 11);
  BOOST_REQUIRE(few.events.size() == 11U);
  BOOST_TEST(few.events_left_out == all.events.size() - 11);
  BOOST_TEST(few.events.front().kind == "start");
  BOOST_TEST(few.events[5].time == all.events[all.events.size() - 6].time);
  BOOST_TEST(few.events.back().text == all.events.back().text);
  BOOST_TEST(std::ranges::is_sorted(few.events, {}, &SimulationEvent::time));
  BOOST_TEST(contains(few.page(), std::to_string(few.events_left_out) + " events are left out here"));
  BOOST_TEST(!contains(all.page(), "events are left out here"));
}

BOOST_AUTO_TEST_CASE(killed_worker_and_other_faults_are_shown) {
  rpc::Faults faults;
  faults.interval = 200ms;
  faults.kill = faults.lose_host = faults.partition = true;
  faults.reset = 0.02;
  const auto report = record(3, &call_in_a_circle, 3, faults);
  const auto found = of_kind(report, "fault");
  for (const std::string fault :
       {"fault: kill", "fault: partition: 0 to ", "fault: reset of the connection with rank "})
    BOOST_TEST(std::ranges::any_of(found, [&](const auto& event) { return event.text.starts_with(fault); }), fault);
  BOOST_TEST(std::ranges::count(found, "fault: kill", &SimulationEvent::text) ==
             static_cast<int64_t>(report.faults.at("kill")));
  BOOST_TEST(
      std::ranges::any_of(report.events, [](const auto& event) { return event.bytes > 0 && event.arrival < 0ns; }));
}

BOOST_AUTO_TEST_CASE(corrupted_messages_are_marked) {
  rpc::Faults faults;
  faults.corrupt_byte = 0.02;
  const auto report = record(3, &call_in_a_circle, 1, faults);
  const auto marked = std::ranges::count(report.events, true, &SimulationEvent::corrupted);
  BOOST_TEST(marked > 0);
  BOOST_TEST(marked <= static_cast<int64_t>(report.faults.at("corrupt byte")));
}

BOOST_AUTO_TEST_CASE(message_in_parts_is_one_event) {
  const auto report = record(2, [](WorkerId rank) {
    rpc::init_rpc("w" + std::to_string(rank));
    if (rank == 0) (void)rpc::rpc_sync<&echo>(1, std::string(3'000'000, 'a'));
    rpc::shutdown();
  });
  BOOST_TEST(report.all_returned(), report.text());
  for (const char* const kind : {"request", "reply"}) {
    const auto found = of_kind(report, kind);
    const auto large = std::ranges::find_if(found, [](const auto& event) { return event.bytes > 3'000'000; });
    BOOST_REQUIRE((large != found.end()));
    BOOST_TEST(large->text == "page::echo");
    BOOST_TEST((large->arrival > large->time));
  }
  BOOST_TEST(of_kind(report, "bytes").empty());
}

BOOST_AUTO_TEST_SUITE_END()
