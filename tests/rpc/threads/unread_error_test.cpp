// An error that no caller reads is reported once.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <mutex>

#include "tendril/rpc/threads/release.h"
#include "tendril/rpc/threads/unread_error.h"
#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(unread_error)

using namespace rpc_test;

int fail(int number) { throw std::out_of_range("number " + std::to_string(number)); }
int add(int a, int b) { return a + b; }
struct Broken {
  explicit Broken(int) { throw std::out_of_range("no constructor"); }
  int get() const { return 0; }
};

/// The constructor of FailsLate throws when this is set.
std::unique_ptr<Promise<>> may_fail;
struct FailsLate {
  explicit FailsLate(int) {
    may_fail->future().wait();
    throw std::out_of_range("no constructor, late");
  }
  int get() const { return 0; }
};
int use(const RRef<FailsLate>& late) { return late.rpc_sync<&FailsLate::get>(); }
RRef<FailsLate> make_late(int maker, int owner) { return remote<FailsLate>(Cluster::agent(maker), owner, 1); }

/// Collects the errors that would be printed.
class Collected {
 public:
  Collected() {
    set_unread_error_handler([this](const UnreadError& unread) {
      const std::lock_guard lock(mutex_);
      try {
        std::rethrow_exception(unread.error);
      } catch (const std::exception& error) {
        texts_.push_back(unread.function + " | " + error.what());
      }
    });
  }
  ~Collected() { set_unread_error_handler({}); }
  std::vector<std::string> texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  bool reach(std::size_t count) const {
    return Cluster::eventually([&] { return texts().size() >= count; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

BOOST_AUTO_TEST_CASE(dropped_future_is_reported_once) {
  const Collected collected;
  Cluster cluster(2);
  (void)rpc_async<&fail>(cluster[0], 1, 7);
  BOOST_REQUIRE(collected.reach(1));
  (void)rpc_async<&fail>(cluster[0], 0, 8);  // a call to itself
  BOOST_REQUIRE(collected.reach(2));
  {
    const Future<int> kept = rpc_async<&fail>(cluster[0], 1, 9);
    BOOST_REQUIRE(kept.wait_for(30s));  // waited for, not read
  }
  BOOST_REQUIRE(collected.reach(3));
  const std::string start = "unread_error::fail | error on worker 'w";
  BOOST_TEST(collected.texts()[0] == start + "1': std::out_of_range: number 7");
  BOOST_TEST(collected.texts()[1] == start + "0': std::out_of_range: number 8");
  BOOST_TEST(collected.texts()[2] == start + "1': std::out_of_range: number 9");
  BOOST_TEST(cluster[0].metrics().errors_unread == 3u);
  BOOST_TEST(cluster[1].metrics().errors_unread == 0u);
}

BOOST_AUTO_TEST_CASE(dropped_creation_is_reported) {
  const Collected collected;
  Cluster cluster(2);
  (void)remote<Broken>(cluster[0], 1, 1);
  BOOST_REQUIRE(collected.reach(1));
  (void)remote<&fail>(cluster[0], 0, 2);
  BOOST_REQUIRE(collected.reach(2));
  BOOST_TEST(contains(collected.texts()[0], "Broken's constructor | error on worker 'w1'"), collected.texts()[0]);
  BOOST_TEST(contains(collected.texts()[1], "number 2"), collected.texts()[1]);
  BOOST_CHECK_THROW((remote<Broken>(cluster[0], 1, 1).rpc_sync<&Broken::get>()), RpcError);
}

BOOST_AUTO_TEST_CASE(used_creation_is_not_reported) {
  const Collected collected;
  {
    Cluster cluster(2);
    for (const int owner : {0, 1}) {
      const RRef<Broken> broken = remote<Broken>(cluster[0], owner, 1);
      BOOST_CHECK_THROW(broken.rpc_sync<&Broken::get>(), RpcError);
      BOOST_REQUIRE(Cluster::eventually([&] { return broken.state_pointer()->settled().done(); }));
    }
    {
      const RRef<Broken> broken = remote<Broken>(cluster[0], 1, 1);
      (void)broken.rpc_async<&Broken::get>();  // its error is never read, and is reported once
      BOOST_REQUIRE(collected.reach(1));
      BOOST_REQUIRE(Cluster::eventually([&] { return broken.state_pointer()->settled().done(); }));
    }
    BOOST_TEST(cluster[0].metrics().errors_unread == 1u);
  }
  BOOST_TEST(collected.texts().size() == 1u);
}

BOOST_AUTO_TEST_CASE(passed_on_creation_is_not_reported) {
  const Collected collected;
  may_fail = std::make_unique<Promise<>>(nullptr);
  {
    Cluster cluster(3);
    std::vector<Future<int>> used;
    std::vector<RRef<FailsLate>> references;
    for (const int owner : {0, 1, 2}) {
      references.push_back(remote<FailsLate>(cluster[0], owner, 1));
      used.push_back(rpc_async<&use>(cluster[0], 2, references.back()));              // as an argument
      references.push_back(rpc_sync<&make_late>(cluster[0], 1, 1, (owner + 1) % 3));  // as a result
      used.push_back(references.back().rpc_async<&FailsLate::get>());
    }
    may_fail->set_value();
    for (const Future<int>& one : used) BOOST_CHECK_THROW(one.wait(), RpcError);
    for (const auto& one : references)
      BOOST_REQUIRE(Cluster::eventually([&] { return one.state_pointer()->settled().done(); }));
  }
  for (const std::string& text : collected.texts()) BOOST_ERROR(text);
}

BOOST_AUTO_TEST_CASE(errors_are_not_reported_on_io_threads) {
  std::atomic<int> reported{0}, on_io{0};
  set_unread_error_handler([&](const UnreadError&) {
    if (tendril::rpc::detail::in_io_callback()) ++on_io;
    ++reported;
  });
  {
    Cluster cluster(2);
    for (int i = 0; i < 100; ++i) (void)rpc_async<&fail>(cluster[0], i % 2, i);
    for (int i = 0; i < 10; ++i) (void)remote<Broken>(cluster[0], i % 2, i);
    BOOST_TEST(Cluster::eventually([&] { return reported == 110; }));
  }
  set_unread_error_handler({});
  BOOST_TEST(on_io == 0);
}

BOOST_AUTO_TEST_CASE(dropped_continuation_is_reported) {
  const Collected collected;
  Cluster cluster(2);
  (void)rpc_async<&fail>(cluster[0], 1, 3).then([](const Future<int>& done) { return done.wait() + 1; });
  BOOST_REQUIRE(collected.reach(1));
  BOOST_TEST(contains(collected.texts()[0], "Future::then"), collected.texts()[0]);
  BOOST_TEST(contains(collected.texts()[0], "number 3"), collected.texts()[0]);
}

BOOST_AUTO_TEST_CASE(dropped_coroutine_is_reported) {
  const Collected collected;
  Cluster cluster(2);
  const auto failing = [](Future<int> future) -> Task<int> { co_return co_await future; };
  (void)failing(rpc_async<&fail>(cluster[0], 1, 4));
  BOOST_REQUIRE(collected.reach(1));
  BOOST_TEST(contains(collected.texts()[0], "Task"), collected.texts()[0]);
  BOOST_TEST(contains(collected.texts()[0], "number 4"), collected.texts()[0]);
}

BOOST_AUTO_TEST_CASE(read_and_cancelled_calls_are_not_reported) {
  const Collected collected;
  {
    Cluster cluster(2);
    BOOST_CHECK_THROW(rpc_sync<&fail>(cluster[0], 1, 1), RemoteError);
    const Future<int> asked = rpc_async<&fail>(cluster[0], 1, 2);
    BOOST_REQUIRE(asked.wait_for(30s));
    BOOST_TEST(asked.has_error());
    std::vector<Future<int>> many;
    for (int i = 0; i < 5; ++i) many.push_back(rpc_async<&fail>(cluster[0], 1, i));
    BOOST_CHECK_THROW(wait_all(std::move(many)), RemoteError);  // NOLINT(bugprone-use-after-move): the macro asks once
    const auto awaits = [](Future<int> future) -> Task<void> {
      try {
        co_await future;
      } catch (const RemoteError&) {
      }
    };
    awaits(rpc_async<&fail>(cluster[0], 1, 3)).wait();
    rpc_async<&fail>(cluster[0], 1, 4).then([](const Future<int>& done) { return done.has_error(); }).wait();
    std::stop_source stop;
    stop.request_stop();
    (void)rpc_async<&fail>(cluster[0], 1, {.stop = stop.get_token()}, 5);
    (void)rpc_async<&add>(cluster[0], 1, 1, 2);
    BOOST_TEST(rpc_sync<&add>(cluster[0], 1, 1, 2) == 3);
    BOOST_TEST(cluster[0].metrics().errors_unread == 0u);
  }
  BOOST_TEST(collected.texts().empty());
}

BOOST_AUTO_TEST_CASE(printed_errors_are_limited) {
  char name[] = "/tmp/tendril-unread-XXXXXX";
  const int file = ::mkstemp(name), saved = ::dup(2);
  ::dup2(file, 2);
  {
    Cluster cluster(2);
    for (int i = 0; i < 200; ++i) (void)rpc_async<&fail>(cluster[0], 1, i);
    Cluster::eventually([&] { return cluster[0].metrics().errors_unread == 200; }, 30s);
  }
  ::dup2(saved, 2);
  ::close(saved);
  ::close(file);
  std::ifstream stream(name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ::unlink(name);
  BOOST_REQUIRE(!lines.empty());
  BOOST_TEST(lines.size() < 200u);
  BOOST_TEST(contains(lines[0], "tendril: unread error of unread_error::fail: error on worker 'w1': "), lines[0]);
}

BOOST_AUTO_TEST_SUITE_END()
