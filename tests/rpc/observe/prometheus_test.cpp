// Prometheus' text format, parsed.
#include <boost/test/unit_test.hpp>
#include <future>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tendril/rpc/status.h"
#include "tests/decimal_comma.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(prometheus)

using namespace rpc_test;

int add(int a, int b) { return a + b; }
int fail(int) { throw std::runtime_error("no"); }
std::shared_future<void> opened;
int hold(int x) {
  opened.wait();
  return x;
}

/// The samples by name and labels. Each line is checked against the grammar of the format.
struct Scrape {
  explicit Scrape(const std::string& text) {
    static const std::regex sample(
        R"re(([a-z_]+)(\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\}) ([0-9.e+-]+))re");
    static const std::regex comment(R"(# (HELP|TYPE) (tendril_rpc_[a-z_]+) .+)");
    std::istringstream lines(text);
    std::smatch match;
    std::string metric;
    for (std::string line; std::getline(lines, line);) {
      if (std::regex_match(line, match, comment)) {
        if (match[1] == "HELP") BOOST_TEST(metrics.insert(match[2]).second, "twice: " << line);
        if (match[1] == "TYPE") BOOST_TEST(metric == match[2], line);
        metric = match[2];
        continue;
      }
      BOOST_REQUIRE_MESSAGE(std::regex_match(line, match, sample), "no sample: '" << line << "'");
      BOOST_TEST(std::string(match[1]).starts_with(metric), line);
      BOOST_TEST(samples.emplace(std::string(match[1]) + std::string(match[2]), std::stod(match[6])).second,
                 "twice: " << line);
    }
  }
  /// Returns the sample of a metric such as "calls_made_total". `more` are the labels after worker and rank.
  double at(const std::string& name, int rank, const std::string& more = "") const {
    const std::string key = "tendril_rpc_" + name + "{worker=\"w" + std::to_string(rank) + "\",rank=\"" +
                            std::to_string(rank) + "\"" + (more.empty() ? "" : "," + more) + "}";
    BOOST_REQUIRE_MESSAGE(samples.contains(key), "no sample " << key);
    return samples.at(key);
  }

  std::set<std::string> metrics;
  std::map<std::string, double> samples;
};

BOOST_AUTO_TEST_CASE(counters_and_gauges_match_the_calls) {
  std::promise<void> gate;
  opened = gate.get_future();
  Cluster cluster(2, {.num_worker_threads = 1, .ping_interval = 0ms});
  for (int i = 0; i < 5; ++i) BOOST_TEST(rpc_sync<&add>(cluster[0], 1, i, 1) == i + 1);
  BOOST_CHECK_THROW(rpc_sync<&fail>(cluster[0], 1, 1), RemoteError);
  const Future<int> running = rpc_async<&hold>(cluster[0], 1, 1);
  const auto in_handler = [&] {
    const auto calls = cluster[1].calls_received();
    return calls.size() == 1 && calls[0].state == CallReceived::State::running &&
           cluster[1].metrics().active_handlers == 1;
  };
  BOOST_TEST(Cluster::eventually(in_handler, 60s));

  const Scrape caller(prometheus_text(cluster[0])), callee(prometheus_text(cluster[1]));
  BOOST_TEST(caller.at("calls_made_total", 0) == 7);
  BOOST_TEST(caller.at("calls_completed_total", 0) == 5);
  BOOST_TEST(caller.at("calls_failed_total", 0) == 1);
  BOOST_TEST(caller.at("pending_calls", 0) == 1);
  BOOST_TEST(caller.at("calls_in_flight", 0, "function=\"prometheus::hold\"") == 1);
  BOOST_TEST(caller.at("oldest_pending_call_seconds", 0) > 0);
  BOOST_TEST(caller.at("peers", 0) == 1);
  BOOST_TEST(caller.at("world_size", 0) == 2);
  BOOST_TEST(caller.at("requests_sent_total", 0) == 7);
  BOOST_TEST(caller.at("peer_pending_calls", 0, "peer=\"w1\",transport=\"unix\"") == 1);
  BOOST_TEST(caller.at("peer_bytes_sent_total", 0, "peer=\"w1\",transport=\"unix\"") ==
             callee.at("peer_bytes_received_total", 1, "peer=\"w0\",transport=\"unix\""));
  BOOST_TEST(callee.at("calls_served_total", 1) == 6);
  BOOST_TEST(callee.at("calls_received", 1, "function=\"prometheus::hold\",state=\"running\"") == 1);
  BOOST_TEST(callee.at("active_handlers", 1) == 1);
  BOOST_TEST(callee.at("slots", 1) == 1);
  BOOST_TEST(callee.at("owner_rrefs", 1) == 0);
  gate.set_value();
  BOOST_TEST(running.wait() == 1);
}

BOOST_AUTO_TEST_CASE(histogram_is_cumulative_and_complete) {
  Cluster cluster(2);
  for (int i = 0; i < 50; ++i) rpc_sync<&add>(cluster[0], 1, i, 1);
  const Scrape scrape(prometheus_text(cluster[0]));
  double before = 0, last_bound = 0;
  int buckets = 0;
  std::vector<std::pair<double, double>> sorted;  // upper bounds and counts
  for (const auto& [key, count] : scrape.samples) {
    const std::size_t at = key.find("le=\"");
    if (!key.starts_with("tendril_rpc_call_latency_seconds_bucket") || key.find("+Inf") != key.npos) continue;
    sorted.emplace_back(std::stod(key.substr(at + 4)), count);
  }
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [bound, count] : sorted) {
    BOOST_TEST(count >= before);
    BOOST_TEST(bound > last_bound);
    before = count;
    last_bound = bound;
    ++buckets;
  }
  BOOST_TEST(buckets == 26);
  BOOST_TEST(sorted.front().first == 1.024e-6, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(scrape.at("call_latency_seconds_bucket", 0, "le=\"+Inf\"") == 50);
  BOOST_TEST(scrape.at("call_latency_seconds_count", 0) == 50);
  BOOST_TEST(before <= 50);
  const double sum = scrape.at("call_latency_seconds_sum", 0);
  BOOST_TEST((sum > 50 * 1e-7 && sum < 3000));
}

BOOST_AUTO_TEST_CASE(samples_do_not_depend_on_the_locale,
                     *boost::unit_test::precondition(tendril::testing::DecimalComma::possible)) {
  Cluster cluster(2);
  rpc_sync<&add>(cluster[0], 1, 1, 1);
  const tendril::testing::DecimalComma comma;
  const Scrape scrape(prometheus_text(cluster[0]));  // checks each line
  BOOST_TEST(scrape.at("call_latency_seconds_bucket", 0, "le=\"1.024e-06\"") >= 0);
}

BOOST_AUTO_TEST_CASE(durations_are_below_their_bucket_bound) {
  // The text depends on this: the buckets below 4 * k hold exactly the durations below 2^k ns.
  for (int power = 2; power < 39; ++power) {
    const std::chrono::nanoseconds bound(int64_t{1} << power);
    BOOST_TEST(LatencyHistogram::bucket_of(bound) == 4 * power);
    BOOST_TEST(LatencyHistogram::bucket_of(bound - 1ns) < 4 * power);
  }
}

BOOST_AUTO_TEST_CASE(agents_share_the_help_lines) {
  Cluster cluster(3);
  const Scrape scrape(prometheus_text());
  for (int rank = 0; rank < 3; ++rank) BOOST_TEST(scrape.at("peers", rank) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
