#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

#include "tests/rpc/raw_call.h"

namespace rpc_test {

/// Two agents in this process, "a" (rank 0) and "b" (rank 1), connected over a socket.
struct AgentPair {
  explicit AgentPair(const FunctionTable& functions, AgentOptions options = {}, bool tcp = false) {
    options.world_size = 2;
    options.name = std::string("a");
    options.rank = 0;
    a = std::make_unique<Agent>(options, functions);
    options.name = std::string("b");
    options.rank = 1;
    b = std::make_unique<Agent>(options, functions);
    a->connect(b->self(), b->listen({.unix_socket = !tcp, .tcp = tcp}), Clock::now() + 30s);
    BOOST_REQUIRE(b->wait_connected(0, Clock::now() + 30s));
  }

  std::unique_ptr<Agent> a, b;
};

/// One handler at a time: everything must work with a single thread.
inline AgentOptions one_thread() { return {.num_worker_threads = 1}; }

/// Checks that nothing is left over. Waits, because handlers end shortly after their replies have been sent.
inline void check_at_rest(const Agent& agent) {
  const Clock::time_point deadline = Clock::now() + 30s;
  Metrics now = agent.metrics();
  while (now.pending_calls + now.queued_jobs + now.active_handlers + now.unanswered_calls + now.queued_bytes > 0 &&
         Clock::now() < deadline) {
    std::this_thread::yield();
    now = agent.metrics();
  }
  BOOST_TEST(now.pending_calls == 0u);
  BOOST_TEST(now.queued_jobs == 0u);
  BOOST_TEST(now.active_handlers == 0u);
  BOOST_TEST(now.unanswered_calls == 0u);
  BOOST_TEST(now.queued_bytes == 0u);
  BOOST_TEST(agent.calls_in_flight().empty());
  BOOST_TEST(now.calls_made == now.calls_completed + now.calls_failed);
}

}  // namespace rpc_test
