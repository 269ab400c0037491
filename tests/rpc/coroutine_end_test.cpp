// A coroutine's outcome is visible only after its locals and arguments have been destroyed.
#include <boost/test/unit_test.hpp>
#include <mutex>

#include "tendril/rpc/call.h"
#include "tendril/rpc/task.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(coroutine_end)

using namespace rpc_test;

std::mutex mutex;
std::vector<std::string> events;
void note(const std::string& what) {
  const std::lock_guard lock(mutex);
  events.push_back(what);
}
std::vector<std::string> taken() {
  const std::lock_guard lock(mutex);
  return std::exchange(events, {});
}

/// Notes its destruction and the text that it refers to.
struct Local {
  ~Local() { note("end of the local beside " + text); }
  const std::string& text;
};

/// The number of worker 0's calls that have been answered.
int answered() {
  const Metrics now = Cluster::agent(0).metrics();
  return static_cast<int>(now.calls_completed + now.calls_failed);
}

/// A local of a coroutine that worker 1 serves for worker 0. Its destructor asks worker 0 how many of its calls have
/// been answered. If the coroutine's reply had already been sent, it would have arrived before that question.
struct AsksCaller {
  ~AsksCaller() {
    note(std::to_string(rpc_sync<&answered>(Cluster::agent(1), 0)) + " answered");
    note("end of the local beside " + text);
  }
  const std::string& text;
};

struct Parameter {
  Parameter() = default;
  explicit Parameter(bool a) : armed(a) {}
  Parameter(Parameter&& other) noexcept : armed(std::exchange(other.armed, false)) {}
  ~Parameter() {
    if (armed) note("end of the parameter");
  }
  bool armed = false;
};

std::string name(int) { return "w"; }

/// `text` is an argument of the call, held by reference.
Task<int> served(const std::string& text, int via) {
  const AsksCaller local{text};
  co_await rpc_async<&name>(Cluster::agent(1), via, 1);
  co_return 3;
}
Task<> failing(const std::string& text, int via) {
  const AsksCaller local{text};
  co_await rpc_async<&name>(Cluster::agent(1), via, 1);
  throw std::out_of_range("no");
}
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

BOOST_AUTO_TEST_CASE(reply_leaves_after_locals_are_destroyed) {
  Cluster cluster(2);
  const std::string text(100, 'x');  // on the heap, where AddressSanitizer finds late reads
  BOOST_TEST(rpc_sync<&served>(cluster[0], 1, text, 0) == 3);
  BOOST_TEST(taken() == (std::vector<std::string>{"0 answered", "end of the local beside " + text}));
  BOOST_CHECK_THROW(rpc_sync<&failing>(cluster[0], 1, text, 0), RemoteError);
  BOOST_TEST(taken() == (std::vector<std::string>{"1 answered", "end of the local beside " + text}));
}

BOOST_AUTO_TEST_CASE(task_completes_after_its_frame_is_destroyed) {
  Promise<> begin;
  auto text = std::make_unique<std::string>("me");
  const Task<int> task = plain(begin.future(), Parameter(true), *text);
  const Future<> after = task.future().then([&](Future<int>) {
    note("done");
    text.reset();
  });
  begin.set_value();
  after.wait();
  BOOST_TEST(taken() == (std::vector<std::string>{"end of the local beside me", "end of the parameter", "done"}));
  BOOST_TEST(task.wait() == 4);
}

BOOST_AUTO_TEST_CASE(throwing_destructor_fails_the_task) {
  BOOST_CHECK_THROW(throws_after_its_result().wait(), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(continuation_is_destroyed_before_its_future_completes) {
  Promise<> begin;
  const Future<> after = begin.future().then([end = std::make_unique<Parameter>(true)](Future<>) {});
  const Future<> last = after.then([](Future<>) { note("done"); });
  begin.set_value();
  last.wait();
  BOOST_TEST(taken() == (std::vector<std::string>{"end of the parameter", "done"}));
}

BOOST_AUTO_TEST_SUITE_END()
