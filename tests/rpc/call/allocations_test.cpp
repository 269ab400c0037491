// Memory allocations per call after a warm-up.
#include <boost/test/unit_test.hpp>
#include <chrono>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/call/function.h"
#include "tests/own_new.h"

BOOST_AUTO_TEST_SUITE(allocations)

using namespace tendril;
using namespace std::chrono_literals;
using testing::allocated;
using testing::kHasOwnNew;

void nothing() {}
BOOST_AUTO_TEST_CASE(empty_call_allocates_nothing) {
  rpc::Agent server({.name = std::string("server"), .rank = 1, .world_size = 2}, rpc::served_functions());
  rpc::Agent client({.name = std::string("client"), .rank = 0, .world_size = 2}, rpc::served_functions());
  client.connect(server.self(), server.listen(), rpc::Clock::now() + 30s);
  BOOST_REQUIRE(server.wait_connected(0, rpc::Clock::now() + 30s));
  constexpr int kCalls = 2000;
  const auto call_often = [&] {
    for (int i = 0; i < kCalls; ++i) rpc::rpc_sync<&allocations::nothing>(client, 1);
  };
  call_often();
  const uint64_t before = allocated.load();
  call_often();
  const double each = static_cast<double>(allocated.load() - before) / kCalls;
  BOOST_TEST_MESSAGE("allocations per call: " << each);
  // Threads that change roles, and the loops' occasional work, still allocate now and then.
  if (kHasOwnNew) BOOST_TEST(allocated.load() > 0);
  BOOST_TEST(each < 0.2);
}

BOOST_AUTO_TEST_SUITE_END()
