#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tendril/rpc/call.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/system/thread.h"
#include "tests/simulation/workload.h"

BOOST_AUTO_TEST_SUITE(workloads)

using namespace std::chrono_literals;
namespace rpc = tendril::rpc;

int64_t twice(int64_t x) { return 2 * x; }

namespace {

/// Calls the other workers for some seconds.
void call_others(simulated::WorkerId rank) {
  rpc::init_rpc("w" + std::to_string(rank), {.agent = {.ping_interval = 200ms, .liveness_timeout = 1s}});
  for (int i = 0; i < 100; ++i) {
    try {
      (void)rpc::rpc_sync<&twice>((rank + 1) % 3, rpc::CallOptions{.timeout = 1s}, int64_t{i});
    } catch (const rpc::RpcError&) {  // a worker is lost, or too late
    }
    rpc::sleep_for(50ms);
  }
  rpc::shutdown({.timeout = 10s, .accept_losses = true});
}

/// Checks that each fault occurs in at least one seed in twenty.
template <class Report>
void check_faults(std::vector<std::string> kinds, int seeds, const Report& report_of) {
  std::map<std::string, int> seeds_with;
  for (int seed = 1; seed <= seeds; ++seed)
    for (const auto& [fault, times] : report_of(static_cast<uint64_t>(seed)).faults) ++seeds_with[fault];
  // Sanitizers replace operator new.
  if (!rpc::Faults::harsh().allocation_failure) std::erase(kinds, "allocation failure");
  for (const std::string& fault : kinds)
    BOOST_TEST(seeds_with[fault] >= seeds / 20, fault << " in " << seeds_with[fault] << " of " << seeds << " seeds");
}

const std::vector<std::string> kFaults{"clock drift",
                                       "small buffer",
                                       "stall",
                                       "clock jump",
                                       "host lost",
                                       "kill",
                                       "long delay",
                                       "pair cut",
                                       "partial write",
                                       "partition",
                                       "partition in one direction",
                                       "pause",
                                       "reset",
                                       "restart",
                                       "allocation failure"};

}  // namespace

BOOST_AUTO_TEST_CASE(every_fault_happens) {
  check_faults(kFaults, 300, [](uint64_t seed) { return simulated::run(simulated::workload("calls"), seed).report; });
}

BOOST_AUTO_TEST_CASE(every_harsh_fault_happens) {
  std::vector<std::string> kinds = kFaults;
  kinds.emplace_back("corrupt byte");
  check_faults(kinds, 100, [](uint64_t seed) {
    return rpc::detail::simulate({.world_size = 3, .seed = seed, .faults = rpc::Faults::harsh()}, call_others);
  });
}

BOOST_AUTO_TEST_SUITE_END()
