// A graceful shutdown ends, whatever failed before.
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <thread>

#include "tendril/rpc/call.h"
#include "tendril/rpc/group.h"
#include "tests/rpc/asleep.h"
#include "tests/rpc/error_text.h"
#include "tests/rpc/reserved_port.h"

BOOST_AUTO_TEST_SUITE(shutdown_ends)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using tendril::test::contains;
using tendril::test::text_of_error;

int look_at(const RRef<std::vector<int>>&) { return 0; }
std::vector<int> make(std::size_t size) { return std::vector<int>(size); }

/// Workers "w0", "w1", ... as threads of this process.
struct Party {
  std::vector<std::string> run(int world_size, const std::function<void(Group&, int)>& body) const {
    std::vector<std::string> errors(static_cast<std::size_t>(world_size));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank)
      threads.emplace_back([&, rank] {
        errors[static_cast<std::size_t>(rank)] = text_of_error([&] {
          InitOptions options;
          options.rank = rank;
          options.world_size = world_size;
          options.master_port = port.number();
          options.transport = Transport::tcp;
          Group group(std::string("w").append(std::to_string(rank)), options);
          body(group, rank);
        });
      });
    threads.clear();
    return errors;
  }
  tendril::test::ReservedPort port;
};

BOOST_AUTO_TEST_CASE(last_phases_have_time_past_the_deadline) {
  const Party party;
  std::atomic<pid_t> other{0};
  const auto errors = party.run(2, [&](Group& group, int rank) {
    // Held at both sides until shutdown releases it, which takes a few messages and their acknowledgements.
    const auto made = remote<&make>(*group.agent(), 1 - rank, std::size_t{3});
    group.barrier();
    if (rank == 1) {
      other = ::gettid();
      return group.shutdown({.timeout = 60s});
    }
    if (!tendril::test::wait_until_asleep(other)) throw std::logic_error("w1 does not wait in shutdown");
    rpc_sync<&look_at>(*group.agent(), 1, made);  // w1 acknowledges the reference some 20 ms later
    group.shutdown({.timeout = 1ms});
  });
  for (const std::string& error : errors) BOOST_TEST(error == "");
}

BOOST_AUTO_TEST_CASE(shutdown_ends_after_a_failed_barrier) {
  const Party party;
  std::latch told(2);
  std::atomic<int> failed{0};
  const auto errors = party.run(3, [&](Group& group, int rank) {
    if (rank == 0) {
      told.wait();
    } else {
      const std::string text = text_of_error([&] { group.barrier(200ms); });
      failed += contains(text, "these workers have not reached 'barrier': worker 'w0' (rank 0)");
      told.count_down();
    }
    group.shutdown();  // without a deadline
  });
  for (const std::string& error : errors) BOOST_TEST(error == "");
  BOOST_TEST(failed.load() == 2);
}

BOOST_AUTO_TEST_SUITE_END()
