// Device tensors sent between processes of one host, as handles of device memory (docs/decisions/0030).
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

/// Everything that a scenario prints, including its error output.
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

BOOST_AUTO_TEST_CASE(all_layouts_are_lent_and_returned) { BOOST_TEST(outcome("tensors") == "no error\n"); }

BOOST_AUTO_TEST_CASE(sent_tensors_keep_their_values) { BOOST_TEST(outcome("in_place") == "no error\n"); }

BOOST_AUTO_TEST_CASE(lending_continues_after_a_reconnect) { BOOST_TEST(outcome("cut") == "no error\n"); }

BOOST_AUTO_TEST_CASE(map_may_lead_to_another_device, *boost::unit_test::precondition(two_devices)) {
  BOOST_TEST(outcome("devices") == "no error\n");
}

BOOST_AUTO_TEST_CASE(memory_of_a_lost_receiver_is_reused) {
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

BOOST_AUTO_TEST_CASE(lending_requires_both_workers) {
  BOOST_TEST(outcome("neither") == "no error\n");
  BOOST_TEST(outcome("first") == "no error\n");
}

BOOST_AUTO_TEST_CASE(environment_enables_lending_for_both) {
  BOOST_TEST(contains(outcome("neither", {"TENDRIL_CUDA_IPC=1"}), "error: "));  // something was lent
}

BOOST_AUTO_TEST_CASE(nothing_is_lent_over_tcp) {
  BOOST_TEST(outcome("both", {"TENDRIL_TRANSPORT=tcp"}) == "no error\n");
}

/// Needs emulated devices: a process cannot be given another real device.
BOOST_AUTO_TEST_CASE(nothing_is_lent_without_access_to_device, *boost::unit_test::precondition(emulated)) {
  const std::string text = outcome("other_devices");
  BOOST_TEST(contains(text, "no error\n"), text);
  // Reported once, however many tensors are sent.
  const std::string said =
      "rpc: tensors on devices are sent from worker 'w0' to worker 'w1' (rank 1) through host memory";
  BOOST_TEST(contains(text, said), text);
  BOOST_TEST(text.find(said) == text.rfind(said), text);
  BOOST_TEST(contains(text, "this process does not see that device"), text);
}

BOOST_AUTO_TEST_CASE(forged_messages_end_the_session) {
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

BOOST_AUTO_TEST_CASE(wrong_handles_are_rejected_right_one_opened) { BOOST_TEST(outcome("handles") == "no error\n"); }

BOOST_AUTO_TEST_SUITE_END()
