#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/task.h"

BOOST_AUTO_TEST_SUITE(task)

using namespace tendril::rpc;

namespace {

Task<int> add(Future<int> a, Future<int> b) { co_return co_await a + co_await b; }
Task<> fail_after(Future<> f) {
  co_await f;
  throw std::runtime_error("late");
}
Task<int> twice(Future<int> f) { co_return 2 * co_await add(f, f); }

Task<uint64_t> trace_after(Future<> f, uint64_t trace) {
  CallContext context = CallContext::current();
  context.trace_id = trace;
  const CallContextScope scope(context);
  co_await f;
  co_return CallContext::current().trace_id;
}

std::vector<std::string> events;

/// Records its destruction and the text that it refers to.
struct Local {
  ~Local() { events.push_back("end of the local beside " + text); }
  const std::string& text;
};

struct Parameter {
  Parameter() = default;
  explicit Parameter(bool a) : armed(a) {}
  Parameter(Parameter&& other) noexcept : armed(std::exchange(other.armed, false)) {}
  ~Parameter() {
    if (armed) events.emplace_back("end of the parameter");
  }
  bool armed = false;
};

Task<int> plain(Future<> begin, Parameter, const std::string& text) {
  const Local local{text};
  co_await begin;
  co_return 4;
}
struct ThrowsAtItsEnd {
  ~ThrowsAtItsEnd() noexcept(false) { throw std::out_of_range("at its end"); }
};
Task<int> throws_after_its_result() {
  const ThrowsAtItsEnd local;
  co_return 5;
}

}  // namespace

BOOST_AUTO_TEST_CASE(coroutine_starts_immediately_and_resumes_when_ready) {
  Promise<int> a, b;
  const Task<int> sum = add(a.future(), b.future());
  BOOST_TEST(!sum.future().done());
  a.set_value(1);
  BOOST_TEST(!sum.future().done());
  b.set_value(2);
  BOOST_TEST(sum.wait() == 3);
}

BOOST_AUTO_TEST_CASE(tasks_await_tasks) {
  Promise<int> a;
  const Task<int> result = twice(a.future());
  a.set_value(4);
  BOOST_TEST(result.wait() == 16);
}

BOOST_AUTO_TEST_CASE(exception_becomes_the_error) {
  Promise<> promise;
  const Task<> task = fail_after(promise.future());
  promise.set_value();
  BOOST_CHECK_THROW(task.wait(), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(awaited_error_is_thrown_inside) {
  Promise<int> bad;
  const Task<int> task = twice(bad.future());
  bad.set_error(std::make_exception_ptr(std::out_of_range("no")));
  BOOST_CHECK_THROW(task.wait(), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(coroutine_keeps_its_context_across_suspensions) {
  Promise<> promise;
  const Task<uint64_t> task = trace_after(promise.future(), 9);
  BOOST_TEST(CallContext::current().trace_id == 0u);  // the caller's, although the coroutine has set its own
  promise.set_value();
  BOOST_TEST(task.wait() == 9u);
  BOOST_TEST(CallContext::current().trace_id == 0u);
}

BOOST_AUTO_TEST_CASE(task_completes_after_its_frame_is_destroyed) {
  Promise<> begin;
  auto text = std::make_unique<std::string>("me");
  const Task<int> task = plain(begin.future(), Parameter(true), *text);
  const Future<> after = task.future().then([&](Future<int>) {
    events.emplace_back("done");
    text.reset();
  });
  begin.set_value();
  after.wait();
  BOOST_TEST(std::exchange(events, {}) ==
             (std::vector<std::string>{"end of the local beside me", "end of the parameter", "done"}));
  BOOST_TEST(task.wait() == 4);
}

BOOST_AUTO_TEST_CASE(throwing_destructor_fails_the_task) {
  BOOST_CHECK_THROW(throws_after_its_result().wait(), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(continuation_is_destroyed_before_its_future_completes) {
  Promise<> begin;
  const Future<> after = begin.future().then([end = std::make_unique<Parameter>(true)](Future<>) {});
  const Future<> last = after.then([](Future<>) { events.emplace_back("done"); });
  begin.set_value();
  last.wait();
  BOOST_TEST(std::exchange(events, {}) == (std::vector<std::string>{"end of the parameter", "done"}));
}

BOOST_AUTO_TEST_SUITE_END()
