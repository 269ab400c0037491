// Two live workers lose their session: contexts that used it fail, and contexts made later work.
#include <array>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/session.h"
#include "tests/dist/group.h"
#include "tests/rpc/reserved_port.h"

namespace lost_session {

using namespace dist_test;

Tensor thrice(const Tensor& x) { return x * 3; }

/// Three workers over sockets; rank 0 serves only the rendezvous.
struct Fixture {
  Fixture() {
    std::vector<std::jthread> joining;
    for (int rank = 0; rank < 3; ++rank) {
      joining.emplace_back([this, rank] {
        rpc::InitOptions options{.init_timeout = 60s};
        options.rank = rank;
        options.world_size = 3;
        options.master_port = port.number();
        options.status_signal = false;
        groups[static_cast<std::size_t>(rank)] =
            std::make_unique<rpc::Group>(std::string("w") + static_cast<char>('0' + rank), options);
      });
    }
  }
  Agent& agent(std::size_t rank) const { return *groups[rank]->agent(); }

  /// Ends the session at rank 1, as if rank 2 had been silent for too long.
  void lose() const {
    agent(1).impl().session(2)->end(std::make_exception_ptr(rpc::PeerLostError("no sign of life", true)),
                                    {.may_return = true});
  }
  /// The gradient of thrice(x).sum(), where rank 2 runs `thrice`: forward and backward cross the session.
  Values gradient(const Context& context) const {
    const Tensor x = leaf({1});
    backward(context, {rpc::rpc_sync<&thrice>(agent(1), 2, {.timeout = 60s}, x).sum()});
    return values(get_gradients(context).at(x));
  }
  /// Makes contexts on another thread until a backward succeeds. Earlier ones must fail with PeerLostError.
  void wait_until_they_reach_each_other() const {
    auto reached = std::async(std::launch::async, [&] {
      return Cluster::eventually([&] {
        try {
          const Context context(agent(1));
          return gradient(context) == Values{3};
        } catch (const rpc::PeerLostError&) {
          return false;
        }
      });
    });
    BOOST_TEST(reached.get());
  }

  const test::ReservedPort port;
  std::array<std::unique_ptr<rpc::Group>, 3> groups;
};

}  // namespace lost_session

BOOST_FIXTURE_TEST_SUITE(lost_session, Fixture)

BOOST_AUTO_TEST_CASE(contexts_made_after_loss_work) {
  for (int round = 0; round < 3; ++round) {
    wait_until_they_reach_each_other();
    lose();
    wait_until_they_reach_each_other();
    for (int i = 0; i < 5; ++i) {
      const Context context(agent(1));
      BOOST_TEST(gradient(context) == Values{3});
    }
  }
}

BOOST_AUTO_TEST_CASE(context_of_a_lost_session_fails) {
  const Context context(agent(1));
  BOOST_TEST(gradient(context) == Values{3});
  lose();
  wait_until_they_reach_each_other();
  BOOST_CHECK_EXCEPTION(gradient(context), tendril::Error, says("has lost rank 1"));
}

BOOST_AUTO_TEST_SUITE_END()
