// The two halves of a session, without a connection and without a clock.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "tendril/rpc/call/call_filter.h"
#include "tendril/rpc/session/calls_made.h"
#include "tendril/rpc/session/calls_served.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(calls)

using namespace tendril::rpc;
using namespace tendril::rpc::detail;
using namespace std::chrono_literals;
using tendril::testing::test_seed;

constexpr auto at(std::chrono::seconds time) { return Clock::time_point(time); }

struct Held final : Job {
  void run(std::unique_ptr<Job>) noexcept override {}
};

BOOST_AUTO_TEST_CASE(made_calls_are_numbered_and_taken_once) {
  Counters counters;
  CallsMade made;
  BOOST_TEST(made.enter({.open = OpenCall(counters), .function = 7}) == 1);
  BOOST_TEST(made.enter({.open = OpenCall(counters), .function = 8}) == 2);
  BOOST_TEST(counters.open.load() == 2);
  BOOST_TEST(made.take(2).value().function == 8);
  BOOST_TEST(!made.take(2));
  BOOST_TEST(!made.take(3));
  BOOST_TEST(made.contains(1));
  BOOST_TEST(made.size() == 1);
  BOOST_TEST(counters.open.load() == 1);
}

BOOST_AUTO_TEST_CASE(ended_session_refuses_new_calls) {
  Counters counters;
  CallsMade made;
  (void)made.enter({.open = OpenCall(counters)});
  const auto left = made.end();
  BOOST_TEST(left.value().size() == 1);
  BOOST_TEST(made.ended());
  CallMade late{.open = OpenCall(counters), .function = 9};
  const uint64_t none = made.enter(std::move(late));
  BOOST_TEST(none == 0);
  BOOST_TEST(late.function == 9);  // NOLINT(bugprone-use-after-move): it was not taken
  BOOST_TEST(counters.open.load() == 2);
  BOOST_TEST(!made.end());
}

BOOST_AUTO_TEST_CASE(overdue_calls_are_taken_by_deadline) {
  Counters counters;
  CallsMade made;
  for (const auto deadline : {at(5s), at(9s), at(2s), Clock::time_point::max()}) {
    (void)made.enter({.open = OpenCall(counters), .deadline = deadline});
  }
  CallsMade::Overdue overdue = made.take_overdue(at(5s));
  BOOST_TEST(overdue.calls.size() == 2);
  BOOST_TEST((overdue.next == at(9s)));
  BOOST_TEST(overdue.others);
  overdue = made.take_overdue(at(9s));
  BOOST_TEST(overdue.calls.at(0).first == 2);
  BOOST_TEST((overdue.next == Clock::time_point::max()));
  BOOST_TEST(overdue.others);
  (void)made.take(4);
  BOOST_TEST(!made.take_overdue(at(99s)).others);
}

BOOST_AUTO_TEST_CASE(ended_call_is_never_overdue) {
  Counters counters;
  CallsMade made;
  for (const auto deadline : {at(3s), at(1s), at(2s)}) {
    (void)made.enter({.open = OpenCall(counters), .deadline = deadline});
  }
  (void)made.take(2);
  BOOST_TEST(made.take_overdue(at(1s)).calls.empty());
  BOOST_TEST((made.take_overdue(at(1s)).next == at(2s)));
  BOOST_TEST(made.end().value().size() == 2);
  const CallsMade::Overdue overdue = made.take_overdue(at(9s));
  BOOST_TEST(overdue.calls.empty());
  BOOST_TEST(!overdue.others);
}

BOOST_AUTO_TEST_CASE(cancellation_during_reference_registration_is_reported) {
  Counters counters;
  CallsMade made;
  for (int i = 0; i < 4; ++i) (void)made.enter({.open = OpenCall(counters), .deadline = at(1s)});
  bool cancelled[5] = {};
  for (const uint64_t id : {1, 2, 3}) BOOST_TEST(made.begin_leaving(id, cancelled[id]));
  BOOST_TEST((made.take(1, true).value().leaving != nullptr));  // cancelled
  BOOST_TEST((made.take(2).value().leaving != nullptr));        // answered
  BOOST_TEST((made.take(4, true).value().leaving == nullptr));  // not leaving: the canceller notifies the peer
  BOOST_TEST(made.take_overdue(at(1s)).calls.size() == 1);      // 3
  for (const uint64_t id : {1, 2, 3}) made.end_leaving(id);
  BOOST_TEST(cancelled[1]);
  BOOST_TEST(!cancelled[2]);
  BOOST_TEST(cancelled[3]);
  BOOST_TEST(!cancelled[4]);
  BOOST_TEST(!made.begin_leaving(4, cancelled[4]));

  // A call that is cancelled later does not refer to the sender's variable any more.
  const uint64_t id = made.enter({.open = OpenCall(counters)});
  bool late = false;
  BOOST_TEST(made.begin_leaving(id, late));
  made.end_leaving(id);
  BOOST_TEST((made.take(id, true).value().leaving == nullptr));
  BOOST_TEST(!late);
}

BOOST_AUTO_TEST_CASE(request_is_admitted_and_answered_once) {
  CallsServed served;
  const auto stop = served.admit(1, {.function = 7});
  BOOST_TEST(stop.has_value());
  BOOST_TEST(!stop->stop_requested());
  BOOST_TEST(!served.admit(1, {}));
  BOOST_TEST(served.dispatch(1).stop_possible());
  std::optional<CallServed> entry = served.take(1);
  BOOST_TEST(entry.value().dispatched);
  BOOST_TEST(!served.take(1));
  BOOST_TEST((served.withdraw(1) == RequestStatus::answered));
  served.put_back(1, std::move(*entry));
  BOOST_TEST((served.withdraw(1) == RequestStatus::serving));
  BOOST_TEST(served.size() == 1);
  BOOST_TEST(!served.admit(1, {}));
  BOOST_TEST(!served.dispatch(2).stop_possible());
}

BOOST_AUTO_TEST_CASE(cancel_requests_stop_before_or_after_arrival) {
  CallsServed served;
  const auto first = served.admit(1, {});
  served.cancel(1);
  BOOST_TEST(first.value().stop_requested());
  served.cancel(3);
  BOOST_TEST(!served.admit(2, {}).value().stop_requested());
  BOOST_TEST(served.admit(3, {}).value().stop_requested());
  (void)served.take(2);
  served.cancel(2);  // answered: nothing is remembered
  served.cancel(5);
  (void)served.admit(5000, {});  // a large request arrives in parts, and thousands may overtake it
  BOOST_TEST(served.admit(5, {}).value().stop_requested());
  served.cancel(6);
  (void)served.admit(100'000, {});
  BOOST_TEST(served.admit(6, {}).value().stop_requested());
}

BOOST_AUTO_TEST_CASE(overtaken_large_request_is_still_admitted) {
  CallFilter filter;
  BOOST_TEST(filter.admit(1));
  for (uint64_t id = 3; id < 200'000; ++id) BOOST_REQUIRE(filter.admit(id));
  BOOST_TEST(!filter.seen(2));
  BOOST_TEST(filter.admit(2));
  BOOST_TEST(!filter.admit(2));
  BOOST_TEST(!filter.admit(3));
  BOOST_TEST(!filter.admit(199'999));
}

BOOST_AUTO_TEST_CASE(requests_are_recognised_in_any_order) {
  constexpr uint64_t n = 500;
  std::vector<uint64_t> order(n);
  std::iota(order.begin(), order.end(), 1);
  std::mt19937 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    CallFilter filter;
    std::set<uint64_t> come;
    for (const uint64_t id : order) {
      for (uint64_t other = 1; other <= n; other += 7) BOOST_REQUIRE(filter.seen(other) == (come.count(other) > 0));
      BOOST_REQUIRE(filter.admit(id));
      BOOST_REQUIRE(!filter.admit(id));
      come.insert(id);
    }
    BOOST_TEST(filter.admit(n + 1));
  }
}

BOOST_AUTO_TEST_CASE(oldest_gap_is_forgotten_beyond_the_limit) {
  CallFilter filter;
  uint64_t id = 0;
  for (std::size_t i = 0; i <= CallFilter::kMaxGaps; ++i) BOOST_REQUIRE(filter.admit(id += 2));
  BOOST_TEST(filter.seen(1));  // its gap was the oldest, and there was one too many
  BOOST_TEST(!filter.admit(1));
  BOOST_TEST(filter.admit(3));
  BOOST_TEST(filter.admit(id - 1));
}

BOOST_AUTO_TEST_CASE(withdrawn_request_is_never_served) {
  CallsServed served;
  BOOST_TEST((served.withdraw(2) == RequestStatus::unseen));
  BOOST_TEST(served.admit(1, {}).has_value());
  BOOST_TEST(!served.admit(2, {}).has_value());
}

BOOST_AUTO_TEST_CASE(request_is_held_only_while_congested) {
  CallsServed served;
  std::unique_ptr<Job> job = std::make_unique<Held>();
  BOOST_TEST(!served.hold(job, [] { return false; }));
  BOOST_TEST((job != nullptr));
  BOOST_TEST(served.hold(job, [] { return true; }));
  BOOST_TEST((job == nullptr));
  BOOST_TEST(served.take_held().size() == 1);
  BOOST_TEST(served.take_held().empty());
}

BOOST_AUTO_TEST_CASE(end_stops_all_and_returns_held_requests) {
  CallsServed served;
  const auto stop = served.admit(1, {});
  std::unique_ptr<Job> job = std::make_unique<Held>();
  (void)served.hold(job, [] { return true; });
  BOOST_TEST(served.end().size() == 1);
  BOOST_TEST(stop.value().stop_requested());
  BOOST_TEST(served.size() == 0);
  BOOST_TEST(!served.admit(2, {}));
  job = std::make_unique<Held>();
  BOOST_TEST(!served.hold(job, [] { return true; }));
  served.put_back(1, {});
  BOOST_TEST(served.size() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
