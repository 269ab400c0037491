// Tensors on devices between processes of one host, as handles of device memory (docs/decisions/0030).
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/device.h"
#include "tests/contains.h"
#include "tests/rpc/process.h"
#include "tests/rpc/reserved_port.h"

namespace lending {

using namespace tendril;
using namespace std::chrono_literals;
using test::contains;

namespace {

/// All that a scenario prints, its error output included.
std::string outcome(const std::string& scenario, std::vector<std::string> environment = {}) {
  test::Process process({"/bin/sh", "-c", "exec " TENDRIL_TEST_PROGRAMS "/lending_scenarios " + scenario + " 2>&1"},
                        std::move(environment));
  std::string text = process.rest(240s);
  process.wait();
  return text;
}

boost::test_tools::assertion_result has_device(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) > 0;
}
boost::test_tools::assertion_result emulated(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) > 0 && cuda::device_name() == "emulated";
}
boost::test_tools::assertion_result two_devices(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) > 1;
}

}  // namespace

}  // namespace lending

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(lending::has_device))
BOOST_AUTO_TEST_SUITE(lending)

BOOST_AUTO_TEST_CASE(tensors_of_all_layouts_go_both_ways_and_all_is_given_back) {
  BOOST_TEST(outcome("tensors") == "no error\n");
}

BOOST_AUTO_TEST_CASE(what_is_sent_is_what_it_was_when_it_was_sent) { BOOST_TEST(outcome("in_place") == "no error\n"); }

BOOST_AUTO_TEST_CASE(a_session_that_loses_its_connection_goes_on_lending) {
  BOOST_TEST(outcome("cut") == "no error\n");
}

BOOST_AUTO_TEST_CASE(a_map_may_lead_to_another_device, *boost::unit_test::precondition(two_devices)) {
  BOOST_TEST(outcome("devices") == "no error\n");
}

BOOST_AUTO_TEST_CASE(memory_of_a_lost_receiver_serves_again_when_its_process_has_ended) {
  const test::ReservedPort port;
  std::vector<test::Process> workers;
  for (const int rank : {0, 1, 2}) {
    workers.emplace_back(
        std::vector<std::string>{"/bin/sh", "-c", "exec " TENDRIL_TEST_PROGRAMS "/lending_scenarios killed 2>&1"},
        std::vector<std::string>{"MASTER_ADDR=127.0.0.1", "WORLD_SIZE=3", "RANK=" + std::to_string(rank),
                                 "MASTER_PORT=" + std::to_string(port.number())});
  }
  const std::string text = workers[0].rest(240s);
  BOOST_TEST(contains(text, "no error\n"), text);
}

BOOST_AUTO_TEST_CASE(nothing_is_lent_unless_both_say_so) {
  BOOST_TEST(outcome("neither") == "no error\n");
  BOOST_TEST(outcome("first") == "no error\n");
}

BOOST_AUTO_TEST_CASE(the_environment_may_say_so_for_both) {
  BOOST_TEST(contains(outcome("neither", {"TENDRIL_CUDA_IPC=1"}), "error: "));  // something was lent
}

BOOST_AUTO_TEST_CASE(nothing_is_lent_over_tcp) {
  BOOST_TEST(outcome("both", {"TENDRIL_TRANSPORT=tcp"}) == "no error\n");
}

/// On emulated devices: a real one's process cannot be given another.
BOOST_AUTO_TEST_CASE(nothing_is_lent_to_a_process_that_does_not_see_the_device,
                     *boost::unit_test::precondition(emulated)) {
  const std::string text = outcome("other_devices");
  BOOST_TEST(contains(text, "no error\n"), text);
  // Once, however many tensors go.
  const std::string said =
      "rpc: tensors on devices are sent from worker 'w0' to worker 'w1' (rank 1) through host memory";
  BOOST_TEST(contains(text, said), text);
  BOOST_TEST(text.find(said) == text.rfind(said), text);
  BOOST_TEST(contains(text, "this process does not see that device"), text);
}

BOOST_AUTO_TEST_CASE(what_is_forged_ends_the_session_and_says_why) {
  const auto forged = [](const std::string& what) { return outcome("forge " + what, {"TENDRIL_LOG=info"}); };
  const auto check = [&](const std::string& what, const std::string& expected) {
    const std::string text = forged(what);
    BOOST_TEST(contains(text, expected), text);
    BOOST_TEST(contains(text, "ended\n"), text);
    BOOST_TEST(contains(text, "no error\n"), text);
  };
  check("segment", "bad frame: tensor 0 is in segment 77, which is not open for cuda:0");
  check("offset", "bad frame: tensor 0 of 4000 bytes is at 33550433 of a segment of 33554432");
  check("overflow", "bad frame: tensor 0 of 4000 bytes is at 18446744073709551607 of a segment of 33554432");
  check("place", "bad frame: tensor 0 is at 2, which is not a multiple of the element size");
  check("return", "bad lending message: it returns a block that was not lent");
  check("answer", "bad lending message: segment 3 is not on offer for cuda:0");
}

BOOST_AUTO_TEST_CASE(wrong_handles_are_refused_and_the_right_one_is_opened) {
  BOOST_TEST(outcome("handles") == "no error\n");
}

BOOST_AUTO_TEST_SUITE_END()
