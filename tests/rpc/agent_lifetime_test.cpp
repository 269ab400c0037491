// Agents that are destroyed while other threads use references to their peers' objects.
#include <boost/test/unit_test.hpp>
#include <latch>

#include "tests/rpc/cluster.h"

BOOST_AUTO_TEST_SUITE(agent_lifetime)

using namespace rpc_test;

std::latch* written = nullptr;
std::latch* gone = nullptr;

/// An argument whose serialisation blocks: the call has found its agent but not used it yet.
struct Slow {
  template <class Archive>
  void serialize(Archive&, unsigned) {
    if (Archive::is_saving::value && written != nullptr) {
      written->count_down();
      gone->wait();
    }
  }
};
struct Object {
  int take(const Slow&) { return 1; }
};

BOOST_AUTO_TEST_CASE(destroyed_agent_fails_method_call_in_progress) {
  const auto make = [](const char* name, WorkerId rank) {
    AgentOptions options{.name = name, .rank = rank, .world_size = 2};
    auto agent = std::make_unique<Agent>(options, served_functions());
    RRefContext::attach(*agent);
    return agent;
  };
  auto caller = make("caller", 0), owner = make("owner", 1);
  caller->connect(owner->self(), owner->listen({.unix_socket = true, .tcp = false}), Clock::now() + 30s);
  BOOST_REQUIRE(owner->wait_connected(0, Clock::now() + 30s));

  const RRef<Object> object = remote<Object>(*caller, 1);
  BOOST_REQUIRE((object.rpc_sync<&Object::take>(Slow{}) == 1));
  std::latch is_written(1), is_gone(1);
  written = &is_written;
  gone = &is_gone;
  std::string text;
  std::thread thread([&] {
    try {
      object.rpc_sync<&Object::take>(Slow{});
    } catch (const UsageError& error) {
      text = error.what();
    }
  });
  is_written.wait();
  caller.reset();
  is_gone.count_down();
  thread.join();
  written = nullptr;
  BOOST_TEST(contains(text, "has been shut down"), text);
  BOOST_CHECK_THROW((object.rpc_sync<&Object::take>(Slow{})), UsageError);
}

BOOST_AUTO_TEST_CASE(shared_agent_may_outlive_its_owner) {
  auto agent = std::make_unique<Agent>(AgentOptions{.name = "alone"}, served_functions());
  const std::shared_ptr<Agent> shared = agent->share(), again = shared->share();
  BOOST_TEST(shared->self().name == "alone");
  agent.reset();
  BOOST_TEST(again->self().name == "alone");
  BOOST_TEST(again->peers().empty());
  BOOST_CHECK_THROW(again->wait_connected(0, Clock::now()), UsageError);
}

BOOST_AUTO_TEST_SUITE_END()
