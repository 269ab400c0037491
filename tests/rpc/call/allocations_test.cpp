// What a call allocates once there have been some before it.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <new>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/call/function.h"

using namespace tendril;
using namespace std::chrono_literals;

namespace {
std::atomic<uint64_t> allocated{0};
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounts = false;  // these have operators of their own, and nothing is recycled for them
#else
constexpr bool kCounts = true;

void* operator new(std::size_t bytes) {
  allocated.fetch_add(1, std::memory_order_relaxed);
  if (void* const piece = std::malloc(bytes > 0 ? bytes : 1)) return piece;
  throw std::bad_alloc();
}
void operator delete(void* piece) noexcept { std::free(piece); }
void operator delete(void* piece, std::size_t) noexcept { std::free(piece); }
#endif

BOOST_AUTO_TEST_SUITE(allocations)

void nothing() {}
BOOST_AUTO_TEST_CASE(an_empty_call_allocates_nothing_on_either_side) {
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
  BOOST_TEST_MESSAGE("allocations a call: " << each);
  // The odd one where threads change places, and what the loops do once in a while. A dozen before things were
  // recycled.
  if (kCounts) BOOST_TEST(allocated.load() > 0);
  BOOST_TEST(each < 0.2);
}

BOOST_AUTO_TEST_SUITE_END()
