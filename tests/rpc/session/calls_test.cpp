// The two halves of a session, without a connection and without a clock.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

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

BOOST_AUTO_TEST_CASE(calls_made_are_numbered_in_order_and_each_is_taken_once) {
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

BOOST_AUTO_TEST_CASE(once_the_session_has_ended_no_call_is_entered_and_the_caller_keeps_it) {
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

BOOST_AUTO_TEST_CASE(overdue_calls_are_taken_and_the_next_deadline_is_that_of_the_others) {
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

BOOST_AUTO_TEST_CASE(a_call_that_has_ended_is_never_overdue) {
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

BOOST_AUTO_TEST_CASE(who_registers_references_learns_that_the_call_was_cancelled_meanwhile) {
  Counters counters;
  CallsMade made;
  for (int i = 0; i < 4; ++i) (void)made.enter({.open = OpenCall(counters), .deadline = at(1s)});
  for (const uint64_t id : {1, 2, 3}) BOOST_TEST(made.begin_leaving(id));
  BOOST_TEST(made.take(1, true).value().leaving);           // cancelled
  BOOST_TEST(made.take(2).value().leaving);                 // answered
  BOOST_TEST(!made.take(4, true).value().leaving);          // not leaving: who cancels it says so
  BOOST_TEST(made.take_overdue(at(1s)).calls.size() == 1);  // 3
  BOOST_TEST(made.end_leaving(1));
  BOOST_TEST(!made.end_leaving(1));
  BOOST_TEST(!made.end_leaving(2));
  BOOST_TEST(made.end_leaving(3));
  BOOST_TEST(!made.end_leaving(4));
  BOOST_TEST(!made.begin_leaving(4));
}

BOOST_AUTO_TEST_CASE(a_request_is_admitted_once_and_answered_once) {
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

BOOST_AUTO_TEST_CASE(a_cancel_sets_off_the_stop_token_also_where_it_comes_before_its_request) {
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
  (void)served.admit(5000, {});  // a large request comes in parts, and thousands may pass it
  BOOST_TEST(served.admit(5, {}).value().stop_requested());
  served.cancel(6);
  (void)served.admit(100'000, {});
  BOOST_TEST(served.admit(6, {}).value().stop_requested());
}

BOOST_AUTO_TEST_CASE(a_large_request_is_served_however_many_others_pass_it) {
  CallFilter filter;
  BOOST_TEST(filter.admit(1));
  for (uint64_t id = 3; id < 200'000; ++id) BOOST_REQUIRE(filter.admit(id));
  BOOST_TEST(!filter.seen(2));
  BOOST_TEST(filter.admit(2));
  BOOST_TEST(!filter.admit(2));
  BOOST_TEST(!filter.admit(3));
  BOOST_TEST(!filter.admit(199'999));
}

BOOST_AUTO_TEST_CASE(requests_are_known_in_whatever_order_they_come) {
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

BOOST_AUTO_TEST_CASE(of_requests_that_never_come_the_oldest_are_forgotten_when_there_are_too_many) {
  CallFilter filter;
  uint64_t id = 0;
  for (std::size_t i = 0; i <= CallFilter::kMaxGaps; ++i) BOOST_REQUIRE(filter.admit(id += 2));
  BOOST_TEST(filter.seen(1));  // its gap was the first of one too many
  BOOST_TEST(!filter.admit(1));
  BOOST_TEST(filter.admit(3));
  BOOST_TEST(filter.admit(id - 1));
}

BOOST_AUTO_TEST_CASE(a_request_that_was_withdrawn_before_it_came_is_never_served) {
  CallsServed served;
  BOOST_TEST((served.withdraw(2) == RequestStatus::unseen));
  BOOST_TEST(served.admit(1, {}).has_value());
  BOOST_TEST(!served.admit(2, {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_request_is_held_only_while_the_peer_takes_no_replies) {
  CallsServed served;
  std::unique_ptr<Job> job = std::make_unique<Held>();
  BOOST_TEST(!served.hold(job, [] { return false; }));
  BOOST_TEST((job != nullptr));
  BOOST_TEST(served.hold(job, [] { return true; }));
  BOOST_TEST((job == nullptr));
  BOOST_TEST(served.take_held().size() == 1);
  BOOST_TEST(served.take_held().empty());
}

BOOST_AUTO_TEST_CASE(the_end_sets_off_all_stop_tokens_gives_back_what_was_held_and_admits_nothing_more) {
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
