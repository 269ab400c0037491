// The trace file of all workers, parsed.
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/src.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>
#include <utility>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/task.h"
#include "tendril/rpc/threads/trace.h"
#include "tests/errors.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/process.h"
#include "tests/rpc/reserved_port.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(trace)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using tendril::test::Process;
using tendril::test::ReservedPort;
using tendril::test::text_of_error;
using tendril::testing::says;
namespace json = boost::json;
using detail::Trace;
using detail::TraceSpan;

/// The agents from which handlers make calls, by rank.
std::mutex agents_mutex;
std::array<std::shared_ptr<Agent>, 3> agents;
std::shared_ptr<Agent> agent_of(std::size_t rank) {
  const std::lock_guard lock(agents_mutex);
  return agents[rank];
}
void set_agent(int rank, std::shared_ptr<Agent> agent) {
  const std::lock_guard lock(agents_mutex);
  agents[static_cast<std::size_t>(rank)].swap(agent);
}

int add(int a, int b) { return a + b; }
int fail(int) { throw std::runtime_error("no"); }
int relay(int a) { return rpc_sync<&add>(*agent_of(1), 2, a, 1); }
std::unique_ptr<Promise<void>> gate;
Task<int> later(int a) {
  co_await gate->future();
  co_return co_await rpc_async<&add>(*agent_of(1), 2, a, 1);
}

/// A path at which no file exists. The destructor removes the file.
struct TraceFile {
  TraceFile() {
    static std::atomic<int> count{0};
    path = std::filesystem::temp_directory_path() /
           ("tendril-trace-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count) + ".json");
    std::filesystem::remove(path);
  }
  ~TraceFile() { std::filesystem::remove(path); }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
  json::array events() const {
    json::error_code error;
    const json::value parsed = json::parse(text(), error);
    BOOST_REQUIRE_MESSAGE(!error, "not JSON: " << error.message() << "\n" << text().substr(0, 2000));
    return parsed.at("traceEvents").as_array();
  }
  std::filesystem::path path;
};

std::string text_at(const json::value& event, const char* key) { return std::string(event.at(key).as_string()); }
double number_at(const json::value& event, const char* key) { return event.at(key).to_number<double>(); }

/// The slices by span id, the flows by id, and the workers' metadata by rank.
struct Parsed {
  explicit Parsed(const json::array& events) {
    for (const json::value& event : events) {
      const std::string phase = text_at(event, "ph");
      const bool send = text_at(event, "name").starts_with("call ");
      if (phase == "X" && text_at(event, "cat") == "loop") {
        const double from = number_at(event, "ts");
        leads.emplace(number_at(event, "pid"), from, from + number_at(event, "dur"), number_at(event, "tid"));
      } else if (phase == "X") {
        auto& slices = send ? sends : handlers;
        BOOST_TEST(slices.emplace(text_at(event.at("args"), "span"), event).second, "two slices of a span");
      }
      if (phase == "s") BOOST_TEST(starts.emplace(text_at(event, "id"), event).second, "an arrow with two starts");
      if (phase == "f") BOOST_TEST(finishes.emplace(text_at(event, "id"), event).second, "an arrow with two ends");
      if (phase == "b") ++begun[text_at(event, "cat") + text_at(event, "id")];
      if (phase == "e") ++ended[text_at(event, "cat") + text_at(event, "id")];
      if (phase == "b" && event.at("args").at("failed").as_bool()) ++failed;
      if (text_at(event, "name") == "tendril_worker")
        workers[static_cast<int>(number_at(event, "pid"))] = event.at("args");
    }
  }
  /// Checks that an arrow connects every call to its handler, from the thread of one to the thread of the other.
  void check_joined() const {
    BOOST_TEST(!sends.empty());
    BOOST_TEST(sends.size() == handlers.size());
    BOOST_TEST(sends.size() == starts.size());
    BOOST_TEST(sends.size() == finishes.size());
    BOOST_TEST((begun == ended));
    for (const auto& [span, send] : sends) {
      BOOST_REQUIRE_MESSAGE(handlers.contains(span), "no handler of " << json::serialize(send));
      const json::value &handler = handlers.at(span), &start = starts.at(span), &finish = finishes.at(span);
      BOOST_TEST(text_at(send, "name") == "call " + text_at(handler, "name"));
      BOOST_TEST((send.at("pid") == start.at("pid") && send.at("tid") == start.at("tid")));
      BOOST_TEST((handler.at("pid") == finish.at("pid") && handler.at("tid") == finish.at("tid")));
      BOOST_TEST(number_at(send.at("args"), "to") == number_at(handler, "pid"));
      BOOST_TEST(number_at(handler.at("args"), "from") == number_at(send, "pid"));
      BOOST_TEST(text_at(send.at("args"), "trace") == text_at(handler.at("args"), "trace"));
      BOOST_TEST(number_at(start, "ts") == number_at(send, "ts"));
      BOOST_TEST(number_at(finish, "ts") == number_at(handler, "ts"));
      BOOST_TEST(begun.at("call" + span) == 1);
      // A handler begins after its call, up to the error of the clocks.
      const double error = number_at(workers.at(static_cast<int>(number_at(send, "pid"))), "clock_error_ns") +
                           number_at(workers.at(static_cast<int>(number_at(handler, "pid"))), "clock_error_ns");
      BOOST_TEST(number_at(handler, "ts") >= number_at(send, "ts") - error / 1e3 - 0.01);
    }
  }
  int count(const std::map<std::string, json::value>& slices, const std::string& name) const {
    int n = 0;
    for (const auto& [span, slice] : slices) n += text_at(slice, "name") == name;
    return n;
  }

  std::map<std::string, json::value> sends, handlers, starts, finishes;
  std::map<std::string, int> begun, ended;
  std::set<std::tuple<double, double, double, double>> leads;  // worker, from, until, thread
  std::map<int, json::value> workers;
  int failed = 0;
};

/// Runs a group whose workers are threads of this process.
void run_group(const std::string& path, const std::function<void(Group&)>& body) {
  const ReservedPort port;
  std::array<std::string, 3> errors;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
          Group group(std::string("w").append(std::to_string(rank)),
                      {.rank = rank, .world_size = 3, .master_port = port.number(), .trace = path});
          set_agent(rank, group.agent());
          group.barrier();
          body(group);
          group.shutdown();
          set_agent(rank, nullptr);
        });
      });
    }
  }
  for (const std::string& error : errors) BOOST_TEST(error == "");
}

detail::ClockFit no_offset() { return {}; }

BOOST_AUTO_TEST_CASE(one_thread_at_a_time_leads) {
  const TraceFile file;
  run_group(file.path, [](Group& group) {
    if (group.agent()->self().id != 0) return;
    for (int i = 0; i < 200; ++i) (void)rpc_sync<&add>(*group.agent(), 1, i, 1);
  });
  const Parsed parsed(file.events());
  std::map<double, double> until;  // the end of the previous span, by worker
  std::set<std::pair<double, double>> leaders;
  for (const auto& [worker, from, to, thread] : parsed.leads) {
    if (until.contains(worker)) BOOST_TEST(from >= until[worker] - 0.001);  // the file's times are rounded
    until[worker] = to;
    leaders.emplace(worker, thread);
  }
  BOOST_TEST(until.size() == 3U);
  BOOST_REQUIRE(!parsed.sends.empty());
  const json::value& send = parsed.sends.begin()->second;
  BOOST_TEST(leaders.contains({number_at(send, "pid"), number_at(send, "tid")}));
}

BOOST_AUTO_TEST_CASE(arrows_connect_calls_to_their_handlers) {
  const TraceFile file;
  gate = std::make_unique<Promise<void>>();
  run_group(file.path, [](Group& group) {
    if (group.agent()->self().id != 0) return;
    for (int i = 0; i < 20; ++i) {
      if (rpc_sync<&add>(*group.agent(), i % 3, i, 1) != i + 1) throw std::logic_error("a wrong sum");
    }
    (void)text_of_error([&] { rpc_sync<&fail>(*group.agent(), 1, 1); });
    if (rpc_sync<&relay>(*group.agent(), 1, 5) != 6) throw std::logic_error("a wrong sum");
    const Future<int> suspended = rpc_async<&later>(*group.agent(), 1, 5);
    tendril::test::wait_until("the call is suspended", [] {
      const auto calls = agent_of(1)->calls_received();
      return calls.size() == 1 && calls[0].state == CallReceived::State::suspended;
    });
    gate->set_value();
    if (suspended.wait() != 6) throw std::logic_error("a wrong sum");
  });
  const Parsed parsed(file.events());
  parsed.check_joined();
  BOOST_TEST(parsed.count(parsed.handlers, "trace::add") == 22);
  BOOST_TEST(parsed.count(parsed.handlers, "trace::relay") == 1);
  BOOST_TEST(parsed.failed == 1);
  BOOST_REQUIRE(parsed.workers.size() == 3u);
  BOOST_TEST(number_at(parsed.workers.at(0), "clock_error_ns") == 0);
  for (int rank = 0; rank < 3; ++rank) {
    BOOST_TEST(text_at(parsed.workers.at(rank), "worker") == std::string("w").append(std::to_string(rank)));
    BOOST_TEST(number_at(parsed.workers.at(rank), "dropped") == 0);
    BOOST_TEST(number_at(parsed.workers.at(rank), "process") == ::getpid());
    // One process has one clock, so the measured offset is within the stated error.
    const double offset = number_at(parsed.workers.at(rank), "clock_offset_ns");
    BOOST_TEST(std::abs(offset) <= number_at(parsed.workers.at(rank), "clock_error_ns"));
  }
  // A call that a handler makes is the handler's child, in the same trace.
  for (const char* parent : {"trace::relay", "trace::later"}) {
    int children = 0;
    for (const auto& [span, handler] : parsed.handlers) {
      if (text_at(handler, "name") != parent) continue;
      for (const auto& [child, send] : parsed.sends) {
        if (text_at(send.at("args"), "parent") != span) continue;
        ++children;
        BOOST_TEST(text_at(send.at("args"), "trace") == text_at(handler.at("args"), "trace"));
        BOOST_TEST(text_at(send, "name") == "call trace::add");
      }
    }
    BOOST_TEST(children == 1);
  }
  int deferred = 0;
  for (const auto& [id, n] : parsed.begun) deferred += id.starts_with("deferred") ? n : 0;
  BOOST_TEST(deferred == 1);
}

BOOST_AUTO_TEST_CASE(later_run_replaces_the_file) {
  const TraceFile file;
  for (int round = 0; round < 2; ++round) {
    run_group(file.path, [](Group& group) { (void)rpc_sync<&add>(*group.agent(), 0, 1, 1); });
    const Parsed parsed(file.events());
    parsed.check_joined();
    BOOST_TEST(parsed.count(parsed.handlers, "trace::add") == 3);
    BOOST_TEST(parsed.workers.size() == 3u);
  }
}

BOOST_AUTO_TEST_CASE(replacement_keeps_file_permissions) {
  const TraceFile file;
  const Trace trace(file.path, {"w0", 0}, 1);
  trace.write("one run", no_offset());
  std::filesystem::permissions(file.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  trace.write("another run", no_offset());
  BOOST_TEST(Parsed(file.events()).workers.size() == 1u);
  BOOST_TEST((static_cast<unsigned>(std::filesystem::status(file.path).permissions()) == 0600u));
}

BOOST_AUTO_TEST_CASE(whole_events_of_killed_writer_remain) {
  const TraceFile file;
  Trace first(file.path, {"w0", 0}, 1), second(file.path, {"w1", 1}, 2);
  first.record({.kind = TraceSpan::Kind::handler, .span_id = 7});
  first.write("group", no_offset());
  const std::string whole = file.text(), events = whole.substr(0, whole.size() - std::string("\n]}\n").size());
  const auto check = [&](const std::string& left, std::size_t slices, std::size_t arrows, std::size_t workers) {
    std::ofstream(file.path) << left;
    second.write("group", no_offset());
    const Parsed parsed(file.events());
    BOOST_TEST(parsed.workers.size() == workers, "after '" << left << "'");
    BOOST_TEST(parsed.handlers.size() == slices, "after '" << left << "'");
    BOOST_TEST(parsed.finishes.size() == arrows, "after '" << left << "'");
  };
  for (const char* tail : {"", "\n", "\n]", "\n]}", "\n]}\n", ",", ",\n", ",\n{\"name\":\"half",
                           ",\n{\"name\":\"\\\"}\"", ",\n{\"name\":\"one\",\"ph\":\"M\"},\n{\"na"})
    check(events + tail, 1, 1, 2);
  // The arrow is the last event and the slice the one before it. Two braces close the slice's object.
  const std::size_t arrow = events.rfind(",\n");
  for (std::size_t end = arrow + 2; end < events.size(); ++end) check(events.substr(0, end), 1, 0, 2);
  check(events.substr(0, arrow), 1, 0, 2);
  check(events.substr(0, arrow - 1), 0, 0, 2);
  check(whole.substr(0, whole.find("[\n") + 2), 0, 0, 1);
  const std::string of_another_run =
      "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"run\":\"0x1\"},\"traceEvents\":[\n]}\n";
  for (const std::size_t written : {0, 1, 40, 50, 70}) check(of_another_run.substr(0, written), 0, 0, 1);
  check(of_another_run, 0, 0, 1);
}

BOOST_AUTO_TEST_CASE(other_files_are_left_unchanged) {
  const TraceFile file;
  Trace trace(file.path, {"w0", 0}, 1);
  const auto refused = [&](const std::string& why) {
    BOOST_CHECK_EXCEPTION(detail::check_trace_path(file.path), UsageError, says(why));
    BOOST_CHECK_EXCEPTION(trace.write("group", no_offset()), UsageError, says(why));
  };
  for (const std::string notes : {"buy milk\n", "{\"traceEvents\":[\n]}\n", "{\"displayTimeUnit\":\"ms\"}"}) {
    std::ofstream(file.path) << notes;
    refused("is not a trace");
    BOOST_TEST(file.text() == notes);
  }
  std::filesystem::remove(file.path);
  const std::string victim = file.path.string() + ".victim";
  std::filesystem::create_symlink(victim, file.path);
  refused("symbolic link");  // also if its target does not exist
  BOOST_TEST(!std::filesystem::exists(victim));
  std::ofstream(victim) << "";
  refused("symbolic link");
  BOOST_TEST(std::filesystem::file_size(victim) == 0u);
  std::filesystem::remove(victim);
  std::filesystem::remove(file.path);
  BOOST_REQUIRE(::mkfifo(file.path.c_str(), 0600) == 0);
  refused("is not a regular file");
}

BOOST_AUTO_TEST_CASE(spans_beyond_the_limit_are_counted) {
  const TraceFile file;
  Trace trace(file.path, {"w0", 0}, 1, 512);
  for (uint64_t i = 1; i <= 1000; ++i) trace.record({.kind = TraceSpan::Kind::handler, .span_id = i});
  BOOST_TEST(trace.dropped() == 488u);
  trace.write("group", no_offset());
  const Parsed parsed(file.events());
  BOOST_TEST(parsed.handlers.size() == 512u);
  BOOST_TEST(number_at(parsed.workers.at(0), "dropped") == 488);
}

BOOST_AUTO_TEST_CASE(threads_record_while_others_read) {
  Trace trace("", {"w0", 0}, 1);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 2000; ++i) trace.record({.peer = t, .span_id = i});
      });
    }
    for (int i = 0; i < 20; ++i) {
      for (const Trace::Thread& thread : trace.threads()) {
        for (std::size_t at = 0; at < thread.spans.size(); ++at) {
          if (thread.spans[at].span_id != at % 2000) BOOST_ERROR("a span differs from the recorded one");
        }
      }
    }
  }
  std::size_t spans = 0;
  for (const Trace::Thread& thread : trace.threads()) spans += thread.spans.size();
  BOOST_TEST(spans == 6000u);
}

BOOST_AUTO_TEST_CASE(times_are_interpolated_between_measurements) {
  const detail::ClockFit fit{{.at_ns = 1000, .offset_ns = 100, .error_ns = 5},
                             {.at_ns = 2000, .offset_ns = 200, .error_ns = 9}};
  BOOST_TEST(fit.to_rank_0(1000) == 1100);
  BOOST_TEST(fit.to_rank_0(1500) == 1650);
  BOOST_TEST(fit.to_rank_0(2000) == 2200);
  BOOST_TEST(fit.to_rank_0(500) == 600);    // before the first: not extrapolated
  BOOST_TEST(fit.to_rank_0(3000) == 3200);  // nor after the last
  BOOST_TEST(fit.error_ns() == 9);
}

BOOST_AUTO_TEST_CASE(killed_worker_loses_only_its_events) {
  const TraceFile file;
  const ReservedPort port;
  std::vector<Process> workers;
  for (int rank = 0; rank < 3; ++rank) {
    workers.emplace_back(std::vector<std::string>{TENDRIL_TEST_PROGRAMS "/status_worker", "traced"},
                         std::vector<std::string>{
                             "RANK=" + std::to_string(rank), "WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
                             "MASTER_PORT=" + std::to_string(port.number()), "TENDRIL_TRACE=" + file.path.string()});
  }
  for (Process& worker : workers) BOOST_TEST(worker.line() == "ready");
  workers[2].signal(SIGKILL);
  for (int rank = 0; rank < 2; ++rank) BOOST_TEST(workers[static_cast<std::size_t>(rank)].wait().code == 0);
  const Parsed parsed(file.events());
  BOOST_TEST(parsed.workers.size() == 2u);
  BOOST_TEST((parsed.workers.contains(0) && parsed.workers.contains(1)));
  BOOST_TEST(parsed.count(parsed.sends, "call status_worker::add") == 6);
  BOOST_TEST(parsed.count(parsed.handlers, "status_worker::add") == 6);
}

BOOST_AUTO_TEST_CASE(unwritable_file_does_not_fail_the_group) {
  Group group("w0", {.rank = 0, .world_size = 1, .trace = "/no/such/folder/trace.json"});
  BOOST_TEST(rpc_sync<&add>(*group.agent(), 0, 1, 1) == 2);
  group.shutdown();
}

BOOST_AUTO_TEST_SUITE_END()
