#pragma once

#include <array>
#include <boost/exception/diagnostic_information.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/call.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/system/thread_state.h"
#include "tests/contains.h"
#include "tests/wait_until.h"

/// Agents of one group in this process, all connected with each other, for tests of typed calls.
namespace rpc_test {

using namespace tendril;
using namespace tendril::rpc;
using tendril::test::contains;
using namespace std::chrono_literals;

class Cluster {
 public:
  /// Creates workers "w0", "w1", ..., connected over Unix-domain sockets. Calls `prepare` for each before it has peers.
  explicit Cluster(int size, AgentOptions options = {}, const FunctionTable& functions = served_functions(),
                   const std::function<void(Agent&)>& prepare = {}) {
    options.world_size = size;
    for (int rank = 0; rank < size; ++rank) {
      options.name = std::string("w").append(std::to_string(rank));
      options.rank = rank;
      agents_.push_back(std::make_unique<Agent>(options, functions));
      RRefContext::attach(*agents_.back());
      if (prepare) prepare(*agents_.back());
      current()[static_cast<std::size_t>(rank)] = agents_.back().get();
    }
    for (int rank = 1; rank < size; ++rank) {
      const Agent::Endpoint endpoint = (*this)[rank].listen({.unix_socket = true, .tcp = false});
      for (int lower = 0; lower < rank; ++lower) {
        (*this)[lower].connect((*this)[rank].self(), endpoint, Clock::now() + 10s);
        BOOST_REQUIRE((*this)[rank].wait_connected(lower, Clock::now() + 10s));
      }
    }
  }
  /// Checks that no references are left.
  ~Cluster() {
    for (const auto& agent : agents_) {
      const RRefCounters left = settled_counters(*agent);
      BOOST_TEST(left.none(), agent->self().name << " ends with " << left.owner_rrefs << " owner RRefs, " << left.forks
                                                 << " forks, " << left.users << " users, " << left.pending_users
                                                 << " pending users, " << left.pending_children << " pending children");
    }
    for (const auto& agent : agents_) agent->shutdown();
    for (Agent*& agent : current()) agent = nullptr;
  }

  Agent& operator[](int rank) const { return *agents_[static_cast<std::size_t>(rank)]; }
  /// Ends the session between two workers on both sides, as if their connection could not be replaced in time. Does
  /// nothing if they have none. May be called from any thread.
  static void cut(int a, int b) {
    // Continuations of the failing calls must not block either.
    const tendril::rpc::detail::IoCallbackScope do_not_block;
    for (const auto& [at, peer] : {std::pair(a, b), std::pair(b, a)}) {
      const auto session = agent(at).impl().session(peer);
      if (!session) continue;
      const std::string why = name_of(session->peer()) + ": connection lost: it was cut";
      session->end(std::make_exception_ptr(PeerLostError(why, true)));
    }
  }
  RRefCounters counters(int rank) const { return RRefContext::of((*this)[rank])->counters(); }

  /// The agent with this rank in the live cluster, for served functions that make calls.
  static Agent& agent(int rank) { return *current()[static_cast<std::size_t>(rank)]; }

  /// Waits until `condition()` holds, for states that the agents' threads change without a notification. Returns false
  /// at the deadline.
  template <class Condition>
  static bool eventually(Condition condition, std::chrono::seconds patience = 10s) {
    return tendril::test::holds_within(patience, condition);
  }

 private:
  static std::array<Agent*, 16>& current() {
    static std::array<Agent*, 16> agents{};
    return agents;
  }
  RRefCounters settled_counters(Agent& agent) {
    const auto context = RRefContext::of(agent);
    eventually([&] { return context->counters().none(); });
    return context->counters();
  }

  std::vector<std::unique_ptr<Agent>> agents_;
};

/// Returns the message of the `Error` that `f` throws. The test fails if `f` throws anything else or nothing.
template <class Error, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  } catch (...) {
    BOOST_ERROR("unexpected error: " << boost::current_exception_diagnostic_information());
    return "";
  }
  BOOST_ERROR("expected an error, got none");
  return "";
}

}  // namespace rpc_test
