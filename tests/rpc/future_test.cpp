#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>
#include <thread>

#include "tendril/rpc/future.h"
#include "tendril/rpc/future_scope.h"
#include "tests/rpc/asleep.h"

BOOST_AUTO_TEST_SUITE(future)

using namespace tendril::rpc;
using namespace std::chrono_literals;

namespace {

std::exception_ptr error(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }

bool says(const std::exception& e, const char* text) { return std::string(e.what()).find(text) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(value_can_be_read_repeatedly) {
  Promise<std::string> promise;
  const Future<std::string> future = promise.future();
  BOOST_TEST(!future.done());
  promise.set_value("x");
  BOOST_TEST(future.done());
  BOOST_TEST(future.wait() == "x");
  BOOST_TEST(future.wait() == "x");
  BOOST_TEST(!future.has_error());
}

BOOST_AUTO_TEST_CASE(every_wait_throws_the_error) {
  Promise<int> promise;
  promise.set_error(error("no"));
  BOOST_TEST(promise.future().has_error());
  BOOST_CHECK_EXCEPTION(promise.future().wait(), std::runtime_error, [](const auto& e) { return says(e, "no"); });
  BOOST_CHECK_THROW(promise.future().wait(), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(result_is_set_once) {
  Promise<int> promise;
  promise.set_value(1);
  BOOST_CHECK_THROW(promise.set_value(2), UsageError);
  BOOST_CHECK_THROW(promise.set_error(error("late")), UsageError);
  BOOST_TEST(!promise.try_set_error(error("late")));
  BOOST_TEST(promise.future().wait() == 1);
}

BOOST_AUTO_TEST_CASE(abandoned_promise_leaves_an_error) {
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.future();
  }
  BOOST_CHECK_THROW(future.wait(), UsageError);
}

BOOST_AUTO_TEST_CASE(empty_future_is_rejected) {
  const Future<int> future;
  BOOST_TEST(!future.valid());
  BOOST_CHECK_THROW(future.wait(), UsageError);
  BOOST_CHECK_THROW(future.done(), UsageError);
  BOOST_CHECK_THROW(future.then([](Future<int>) {}), UsageError);
  BOOST_CHECK_THROW(wait_all(std::vector{future}), UsageError);
}

BOOST_AUTO_TEST_CASE(move_only_value_moves_from_a_temporary) {
  Promise<std::unique_ptr<int>> promise;
  promise.set_value(std::make_unique<int>(7));
  BOOST_TEST(*promise.future().wait() == 7);
}

BOOST_AUTO_TEST_CASE(shared_value_is_copied_from_a_temporary) {
  Promise<std::vector<int>> promise;
  const Future<std::vector<int>> kept = promise.future();
  promise.set_value(3, 1);
  BOOST_TEST(promise.future().wait().size() == 3);
  BOOST_TEST(kept.wait().size() == 3);
}

BOOST_AUTO_TEST_CASE(timed_waits_succeed_or_time_out) {
  Promise<int> promise;
  BOOST_TEST(!promise.future().wait_for(1ms));
  BOOST_TEST(!promise.future().wait_until(Clock::now() - 1s));
  std::thread other([&] { promise.set_value(1); });
  BOOST_TEST(promise.future().wait_for(60s));
  other.join();
  BOOST_TEST(promise.future().wait_until(Clock::now() - 1s));
}

BOOST_AUTO_TEST_CASE(continuations_pass_values_and_errors) {
  Promise<int> promise;
  Promise<> done;
  const auto doubled = promise.future().then([](Future<int> f) { return 2 * f.wait(); });
  const auto text = doubled.then([](Future<int> f) { return std::to_string(f.wait()); });
  const auto none = done.future().then([](Future<> f) { f.wait(); });
  promise.set_value(21);
  done.set_value();
  BOOST_TEST(text.wait() == "42");
  none.wait();

  Promise<int> bad;
  const auto skipped = bad.future().then([](Future<int> f) { return f.wait() + 1; });
  const auto caught = skipped.then([](Future<int> f) { return f.has_error(); });
  bad.set_error(error("no"));
  BOOST_CHECK_THROW(skipped.wait(), std::runtime_error);
  BOOST_TEST(caught.wait());
}

BOOST_AUTO_TEST_CASE(continuation_on_complete_future_runs_immediately) {
  bool ran = false;
  make_ready_future(1).then([&](Future<int>) { ran = true; });
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(continuation_returning_a_future_is_flattened) {
  Promise<int> outer;
  Promise<std::string> inner;
  const Future<std::string> flat = outer.future().then([&](Future<int>) { return inner.future(); });
  outer.set_value(1);
  BOOST_TEST(!flat.done());
  inner.set_value("in");
  BOOST_TEST(flat.wait() == "in");
  const Future<int> failed = make_ready_future(1).then([](Future<int>) { return make_error_future<int>(error("in")); });
  BOOST_CHECK_THROW(failed.wait(), std::runtime_error);
  const Future<int> empty = make_ready_future(1).then([](Future<int>) { return Future<int>(); });
  BOOST_CHECK_THROW(empty.wait(), UsageError);
}

BOOST_AUTO_TEST_CASE(continuation_runs_in_its_attachment_context) {
  Promise<> promise;
  Future<uint64_t> seen;
  {
    CallContext context;
    context.trace_id = 5;
    CallContextScope scope(context);
    seen = promise.future().then([](Future<>) { return CallContext::current().trace_id; });
  }
  BOOST_TEST(CallContext::current().trace_id == 0u);
  promise.set_value();
  BOOST_TEST(seen.wait() == 5u);
  BOOST_TEST(CallContext::current().trace_id == 0u);
}

BOOST_AUTO_TEST_CASE(long_chain_completes_without_deep_stack) {
  Promise<int> promise;
  Future<int> end = promise.future();
  for (int i = 0; i < 100'000; ++i) end = end.then([](Future<int> f) { return f.wait() + 1; });
  promise.set_value(0);
  BOOST_TEST(end.wait() == 100'000);
}

BOOST_AUTO_TEST_CASE(wait_all_returns_values_in_order) {
  std::vector<Promise<int>> promises(10);
  std::vector<Future<int>> futures;
  for (const auto& promise : promises) futures.push_back(promise.future());
  std::thread other([&] {
    for (int i = 9; i >= 0; --i) promises[static_cast<std::size_t>(i)].set_value(i);
  });
  const std::vector<int> values = wait_all(futures);
  other.join();
  for (int i = 0; i < 10; ++i) BOOST_TEST(values[static_cast<std::size_t>(i)] == i);
  BOOST_TEST(wait_all(std::vector<Future<int>>{}).empty());
  wait_all(std::vector<Future<void>>{make_ready_future()});
}

BOOST_AUTO_TEST_CASE(wait_all_throws_first_error_without_waiting) {
  Promise<int> never, bad;
  bad.set_error(error("first"));
  BOOST_CHECK_THROW(wait_all(std::vector{never.future(), bad.future()}), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(collect_all_waits_despite_errors) {
  Promise<int> good, bad;
  const auto all = collect_all(std::vector{good.future(), bad.future()});
  bad.set_error(error("no"));
  BOOST_TEST(!all.done());
  good.set_value(1);
  const std::vector<Future<int>>& results = all.wait();
  BOOST_TEST(results.at(0).wait() == 1);
  BOOST_TEST(results.at(1).has_error());
  BOOST_TEST(collect_all(std::vector<Future<int>>{}).wait().empty());
}

BOOST_AUTO_TEST_CASE(scope_waits_for_all_then_throws) {
  Promise<int> number;
  Promise<std::string> text;
  Promise<void> first_bad, second_bad;
  FutureScope scope;
  scope.wait();  // nothing to wait for
  const Future<int> kept = scope.add(number.future());
  scope.add(text.future());
  scope.add(first_bad.future());
  scope.add(second_bad.future());
  BOOST_CHECK_THROW(scope.add(Future<int>()), UsageError);
  second_bad.set_error(error("second"));
  first_bad.set_error(error("first"));
  std::atomic<bool> returned{false}, returned_early{false};
  const std::atomic<pid_t> waiter{::gettid()};
  std::jthread other([&] {
    number.set_value(7);
    (void)tendril::test::wait_until_asleep(waiter, [&] { return returned.load(); });
    returned_early = returned.load();
    text.set_value("x");
  });
  BOOST_CHECK_EXCEPTION(scope.wait(), std::runtime_error, [&](const auto& e) {
    returned = true;
    return says(e, "first");
  });
  other.join();
  BOOST_TEST(!returned_early);
  BOOST_TEST(kept.wait() == 7);
  scope.wait();  // it is empty now
}

BOOST_AUTO_TEST_CASE(scope_waits_when_an_exception_leaves_it) {
  Promise<void> promise;
  std::atomic<bool> left{false}, left_early{false};
  const std::atomic<pid_t> waiter{::gettid()};
  std::jthread other([&] {
    (void)tendril::test::wait_until_asleep(waiter, [&] { return left.load(); });
    left_early = left.load();
    promise.set_error(error("of the call"));
  });
  try {
    FutureScope scope;
    scope.add(promise.future());
    throw std::logic_error("of the body");
  } catch (const std::exception& e) {
    left = true;
    BOOST_TEST(says(e, "of the body"));
  }
  other.join();
  BOOST_TEST(!left_early);
}

BOOST_AUTO_TEST_CASE(many_threads_wait_for_one_future) {
  Promise<int> promise;
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { sum += promise.future().wait(); });
  promise.set_value(3);
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(sum == 24);
}

BOOST_AUTO_TEST_SUITE_END()
