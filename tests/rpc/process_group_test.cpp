// The functions that act on the default group of this process.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <latch>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/rref.h"
#include "tests/rpc/error_text.h"

BOOST_AUTO_TEST_SUITE(process_group)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using tendril::test::contains;
using tendril::test::text_of_error;

namespace process_group_test {

int add(int a, int b) { return a + b; }

std::latch* gate = nullptr;
void wait_at_gate() {
  blocking([] { gate->wait(); });
}

void leave() { shutdown(); }

struct Counter {
  explicit Counter(int start = 0) : value(start) {}
  int increment() { return ++value; }
  std::atomic<int> value;
};

}  // namespace process_group_test

using namespace process_group_test;

BOOST_AUTO_TEST_CASE(calls_outside_a_group_are_rejected) {
  auto check = [] {
    BOOST_TEST(!is_initialized());
    const std::vector<std::function<void()>> uses = {
        [] { get_worker_info(); },
        [] { get_worker_info("w0"); },
        [] { get_worker_infos(); },
        [] { barrier(); },
        [] { shutdown(); },
        [] { get_rpc_timeout(); },
        [] { rref_counters(); },
        [] { rpc_sync<&add>("w0", 1, 2); },
        [] { rpc_async<&add>(0, 1, 2); },
        [] { remote<Counter>("w0", 1); },
    };
    for (const auto& use : uses) {
      const std::string text = text_of_error(use);
      BOOST_TEST((contains(text, "UsageError: ") && contains(text, "RPC has not been initialised")), text);
    }
  };
  check();
  for (int round = 0; round < 3; ++round) {
    init_rpc("w0", {.rank = 0, .world_size = 1});
    BOOST_TEST(is_initialized());
    BOOST_TEST(rpc_sync<&add>("w0", 1, 2) == 3);
    const RRef<Counter> counter = remote<Counter>("w0", 1);
    BOOST_TEST(counter.rpc_sync<&Counter::increment>() == 2);
    shutdown();
    check();
  }
}

BOOST_AUTO_TEST_CASE(second_init_is_rejected) {
  init_rpc("w0", {.rank = 0, .world_size = 1});
  BOOST_TEST(text_of_error([] { init_rpc("again", {.rank = 0, .world_size = 1}); }) ==
             "UsageError: init_rpc ('again'): RPC is initialised already, as 'w0'; shut it down first");
  BOOST_TEST(rpc_sync<&add>(0, 1, 2) == 3);
  shutdown();
}

BOOST_AUTO_TEST_CASE(failed_init_can_be_repeated) {
  BOOST_TEST(contains(text_of_error([] { init_rpc("no spaces", {.rank = 0, .world_size = 1}); }), "UsageError: "));
  BOOST_TEST(!is_initialized());
  init_rpc("w0", {.rank = 0, .world_size = 1});
  shutdown();
}

BOOST_AUTO_TEST_CASE(workers_are_found_by_name_and_rank) {
  init_rpc("alone", {.rank = 0, .world_size = 1});
  const WorkerInfo alone{"alone", 0};
  BOOST_TEST((get_worker_info() == alone));
  BOOST_TEST((get_worker_info("alone") == alone));
  BOOST_TEST((get_worker_info(0) == alone));
  BOOST_TEST((get_worker_infos() == std::vector<WorkerInfo>{alone}));
  BOOST_TEST(contains(text_of_error([] { get_worker_info("nobody"); }), "nobody"));
  BOOST_TEST(contains(text_of_error([] { get_worker_info(1); }), "UsageError: "));
  BOOST_TEST(contains(text_of_error([] { get_worker_info(-1); }), "UsageError: "));
  shutdown();
}

BOOST_AUTO_TEST_CASE(default_timeout_can_be_changed) {
  init_rpc("w0", {.rank = 0, .world_size = 1, .rpc_timeout = 7s});
  BOOST_TEST((get_rpc_timeout() == 7s));
  std::latch open(1);
  gate = &open;
  set_rpc_timeout(50ms);
  BOOST_TEST((get_rpc_timeout() == 50ms));
  BOOST_TEST(contains(text_of_error([] { rpc_sync<&wait_at_gate>(0); }), "TimeoutError: "));
  open.count_down();
  set_rpc_timeout(0s);
  rpc_sync<&wait_at_gate>(0);
  BOOST_TEST(contains(text_of_error([] { set_rpc_timeout(-1s); }), "UsageError: "));
  shutdown();
}

BOOST_AUTO_TEST_CASE(shutdown_in_a_handler_is_rejected) {
  init_rpc("w0", {.rank = 0, .world_size = 1});
  BOOST_TEST(contains(text_of_error([] { rpc_sync<&leave>(0); }), "called in a handler"));
  shutdown();
}

BOOST_AUTO_TEST_SUITE_END()
