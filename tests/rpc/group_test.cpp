#include "tendril/rpc/group.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <thread>

#include "tendril/rpc/call.h"
#include "tests/rpc/asleep.h"
#include "tests/rpc/party.h"
#include "tests/wait_until.h"

BOOST_AUTO_TEST_SUITE(group)

using namespace group_party;
using tendril::test::contains;

namespace group_test {

int add(int a, int b) { return a + b; }

struct Counter {
  explicit Counter(int start = 0) : value(start) {}
  int increment() { return ++value; }
  std::atomic<int> value;
};

}  // namespace group_test

namespace {

using namespace group_test;

/// Returns an IPv4 address of this host that is not loopback, "" if it has none.
std::string routable_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = "";
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    ::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    if ((one->ifa_flags & IFF_LOOPBACK) == 0) found = text;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_workers_call_each_other_after_init) {
  for (const int threads : {1, 16}) {
    const Party party(5, {.num_worker_threads = threads});
    party
        .run_joined([&](Group& group, int rank) {
          EXPECT(group.workers().size() == 5u);
          for (int other = 0; other < 5; ++other) {
            EXPECT(group.workers()[static_cast<std::size_t>(other)].name == name_of(other));
            EXPECT(rpc_sync<&add>(*group.agent(), name_of(other), 100 * rank, other) == 100 * rank + other);
            EXPECT(rpc_sync<&add>(*group.agent(), other, rank, other) == rank + other);
          }
        })
        .expect_none();
  }
}

BOOST_AUTO_TEST_CASE(both_transports_carry_a_group) {
  for (const Transport transport : {Transport::tcp, Transport::unix_socket}) {
    const Party party(3, {.transport = transport});
    party.run_joined([&](Group& group, int rank) { EXPECT(rpc_sync<&add>(*group.agent(), (rank + 1) % 3, 1, 2) == 3); })
        .expect_none();
  }
}

std::string key_error(int rank, const SharedKey& key, const Party& party) {
  return text_of_error([&] {
    InitOptions options = party.options_of(rank);
    options.key = key;
    Group group(name_of(rank), options);
  });
}

BOOST_AUTO_TEST_CASE(shared_key_permits_reachable_addresses) {
  std::vector<std::string> hosts = {"127.0.0.1"};
  if (const std::string routable = routable_address(); !routable.empty()) hosts.push_back(routable);
  for (const std::string& host : hosts) {
    InitOptions options{.master_addr = host, .transport = Transport::tcp, .key = SharedKey::random()};
    Party(3, options)
        .run_joined([&](Group& group, int rank) {
          EXPECT(rpc_sync<&add>(*group.agent(), (rank + 1) % 3, 1, 2) == 3);
          group.barrier();
        })
        .expect_none();
  }
}

BOOST_AUTO_TEST_CASE(worker_with_wrong_key_is_named) {
  const Party party(2, {.init_timeout = 2s});
  const SharedKey right = SharedKey::random("the right key"), wrong = SharedKey::random("the wrong key");
  std::string at_0;
  std::jthread zero([&] { at_0 = key_error(0, right, party); });
  BOOST_TEST(contains(key_error(1, wrong, party), "does not hold this worker's key (the wrong key)"));
  zero.join();
  BOOST_TEST(contains(at_0, "have not joined: rank 1 (of world size 2); refused: a connection from 127.0.0.1"));
}

BOOST_AUTO_TEST_CASE(reachable_addresses_require_a_key) {
  const Party party(2);
  const std::string text = text_of_error([&] {
    InitOptions options = party.options_of(1);
    options.master_addr = "203.0.113.1";
    Group group("w1", options);
  });
  BOOST_TEST(contains(text, "'203.0.113.1' is an address that other hosts can reach"));
  BOOST_TEST(contains(text, "head -c 32 /dev/urandom > key; chmod 600 key"));
  const std::string both = text_of_error([&] {
    InitOptions options = party.options_of(1);
    options.key = SharedKey::random();
    options.key_file = "file";
    Group group("w1", options);
  });
  BOOST_TEST(contains(both, "both a key and a key_file ('file') are given"));
}

BOOST_AUTO_TEST_CASE(twenty_four_workers_join) {
  const Party party(24, {.num_worker_threads = 1});
  party
      .run_joined([&](Group& group, int rank) {
        EXPECT(rpc_sync<&add>(*group.agent(), (rank + 7) % 24, 1, 2) == 3);
        group.barrier();
      })
      .expect_none();
}

BOOST_AUTO_TEST_CASE(init_returns_after_the_last_worker_joins) {
  const Party party(3);
  std::atomic<bool> last_started{false};
  std::atomic<int> returned{0};
  std::array<std::atomic<pid_t>, 2> threads{};
  std::array<std::promise<std::shared_ptr<Agent>>, 2> agents;
  party
      .run([&](int rank) {
        InitOptions options = party.options_of(rank);
        if (rank < 2) {
          const auto slot = static_cast<std::size_t>(rank);
          options.prepare = [&, slot](const std::shared_ptr<Agent>& agent) { agents[slot].set_value(agent); };
          threads[slot] = ::gettid();
        } else {
          // Wait until w0 and w1 are connected and wait for the third worker.
          const std::array met{agents[0].get_future().get(), agents[1].get_future().get()};
          const auto a_worker_returned = [&] { return returned > 0; };
          tendril::test::wait_until("w0 and w1 are connected", [&] {
            return a_worker_returned() || (met[0]->is_connected(1) && met[1]->is_connected(0));
          });
          for (const auto& thread : threads) EXPECT(tendril::test::wait_until_asleep(thread, a_worker_returned));
          EXPECT(returned == 0);
          last_started = true;
        }
        Group group(name_of(rank), options);
        ++returned;
        EXPECT(last_started.load());
        group.shutdown();
      })
      .expect_none();
}

BOOST_AUTO_TEST_CASE(missing_worker_is_named_to_all) {
  const Party party(3, {.init_timeout = 2s});  // enough for the workers that do join
  const Results results = party.run([&](int rank) {
    if (rank != 1) Group group(name_of(rank), party.options_of(rank));
  });
  for (const int rank : {0, 2})
    BOOST_TEST(contains(results.errors[static_cast<std::size_t>(rank)],
                        "these workers have not joined: rank 1 (of world size 3)"));
  BOOST_TEST(contains(results.errors[0], "TimeoutError: init_rpc ('w0', rank 0): after "));
}

BOOST_AUTO_TEST_CASE(incompatible_worker_and_others_get_the_reason) {
  struct Case {
    int wrong;  ///< the worker's rank in the launch
    std::function<void(std::string&, InitOptions&)> spoil;
    std::string text;
    int missing;
  };
  const std::vector<Case> cases = {
      {2, [](std::string& name, InitOptions&) { name = "w1"; }, "the name 'w1' is not unique: ranks ", -1},
      {2, [](std::string&, InitOptions& options) { options.rank = 1; }, "two workers have rank 1: 'w", 2},
      {1, [](std::string&, InitOptions& options) { options.world_size = 4; },
       "world sizes differ: rank 0 has 3, rank 1 ('w1') has 4", 1},
      {1, [](std::string& name, InitOptions&) { name = "no spaces"; },
       "rank 1: the name 'no spaces' is not 1 to 127 characters", 1},
  };
  std::vector<Results> outcomes(cases.size());
  {
    std::vector<std::jthread> launches;  // in parallel, because each takes until its deadline
    for (std::size_t i = 0; i < cases.size(); ++i)
      launches.emplace_back([&one = cases[i], &outcome = outcomes[i]] {
        const Party party(3, {.init_timeout = 5s});
        outcome = party.run([&](int rank) {
          InitOptions options = party.options_of(rank);
          std::string name = name_of(rank);
          if (rank == one.wrong) one.spoil(name, options);
          Group group(name, options);
        });
      });
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::vector<std::string>& errors = outcomes[i].errors;
    for (const std::string& error : errors) BOOST_TEST(contains(error, cases[i].text), error);
    BOOST_TEST(contains(errors[0], "these workers have not joined: rank "), errors[0]);
    if (cases[i].missing >= 0)
      BOOST_TEST(contains(errors[0], "joined: rank " + std::to_string(cases[i].missing) + " (of"), errors[0]);
  }
}

BOOST_AUTO_TEST_CASE(failed_worker_fails_all_at_once) {
  for (const int wrong : {0, 2}) {
    const Party party(3);
    const Results results = party.run([&](int rank) {
      InitOptions options = party.options_of(rank);
      if (rank == wrong) options.num_worker_threads = 0;
      Group group(name_of(rank), options);
    });
    const std::string text =
        "'" + name_of(wrong) + "' (rank " + std::to_string(wrong) + ") failed: AgentOptions: num_worker_threads = 0";
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& error = results.errors[static_cast<std::size_t>(rank)];
      BOOST_TEST(contains(error, rank == wrong ? "num_worker_threads" : text), error);
    }
  }
}

BOOST_AUTO_TEST_CASE(impossible_rank_is_rejected_at_once) {
  const Party party(2);  // no other worker exists, and none is waited for
  BOOST_TEST(text_of_error([&] { Group group("w5", party.options_of(5)); }) ==
             "UsageError: init_rpc: the rank (RANK) must be 0 to 1 in a group of world size (WORLD_SIZE) 2, got 5; no "
             "launcher was detected");
}

BOOST_AUTO_TEST_CASE(port_in_use_is_rejected) {
  const Party party(1);
  Group group("w0", party.options_of(0));
  const std::string text = text_of_error([&] { Group second("w0", party.options_of(0)); });
  BOOST_TEST(contains(text, "UsageError: init_rpc ('w0', rank 0): rank 0: Agent::listen: cannot listen on 127.0.0.1 "));
  group.shutdown();
}

BOOST_AUTO_TEST_CASE(extra_worker_learns_the_group_is_complete) {
  const Party party(2);
  const Results results = party.run_joined([&](Group& group, int rank) {
    group.barrier();
    if (rank == 0) {
      InitOptions options = party.options_of(1);
      options.init_timeout = 5s;
      const std::string text = text_of_error([&] { Group third("w3", options); });
      if (!contains(text, "there is a group of 2 workers already, whose rank 1 is 'w1'")) throw std::logic_error(text);
    }
    group.barrier();
  });
  results.expect_none();
}

BOOST_AUTO_TEST_CASE(groups_can_reuse_one_port) {
  for (const int threads : {1, 16}) {
    const Party party(3, {.num_worker_threads = threads});
    for (int round = 0; round < 4; ++round)
      party
          .run_joined([&](Group& group, int rank) {
            const RRef<Counter> counter = remote<Counter>(*group.agent(), (rank + 1) % 3, 10 * round);
            EXPECT(counter.rpc_sync<&Counter::increment>() == 10 * round + 1);
          })
          .expect_none();
  }
}

BOOST_AUTO_TEST_CASE(barrier_waits_and_names_missing_workers) {
  const Party party(3);
  std::atomic<int> arrived{0};
  std::latch told(2);
  party
      .run([&](int rank) {
        Group group(name_of(rank), party.options_of(rank));
        for (int round = 1; round <= 20; ++round) {
          ++arrived;
          group.barrier();
          EXPECT(arrived.load() >= 3 * round);
        }
        if (rank == 0) {
          told.wait();
          return;
        }
        EXPECT(contains(text_of_error([&] { group.barrier(200ms); }),
                        "these workers have not reached 'barrier': worker 'w0' (rank 0)"));
        told.count_down();
      })
      .expect_none();
}

BOOST_AUTO_TEST_CASE(second_barrier_times_out_behind_first) {
  const Party party(2);
  std::latch over(1);
  party
      .run([&](int rank) {
        Group group(name_of(rank), party.options_of(rank));
        if (rank == 0) {
          over.wait();
          return group.barrier();
        }
        std::string first;
        std::thread waits([&] { first = text_of_error([&] { group.barrier(); }); });
        const std::string expected = "another thread's call for the same workers has not ended in time";
        EXPECT(tendril::test::holds_within(60s, [&] {  // until thread `waits` is the first
          return contains(text_of_error([&] { group.barrier(10ms); }), expected);
        }));
        over.count_down();
        waits.join();
        EXPECT(first.empty());
      })
      .expect_none();
}

BOOST_AUTO_TEST_CASE(options_and_prepare_reach_the_agent) {
  std::shared_ptr<Agent> prepared;
  InitOptions options{.rank = 0, .world_size = 1, .num_worker_threads = 3};
  options.prepare = [&](const std::shared_ptr<Agent>& agent) { prepared = agent; };
  Group group("w0", options);
  BOOST_TEST(group.agent()->options().num_worker_threads == 3);
  BOOST_TEST((prepared == group.agent()));
  group.shutdown();
}

BOOST_AUTO_TEST_SUITE_END()
