#include "tendril/rpc/flow_control.h"

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace tendril::rpc;

BOOST_AUTO_TEST_SUITE(flow_control)

BOOST_AUTO_TEST_CASE(a_window_is_open_until_as_much_is_outstanding_and_one_request_always_goes) {
  SendWindow window(1000);
  BOOST_TEST(window.open());
  window.sent(5000);
  BOOST_TEST(!window.open());
  window.credit(4000);
  BOOST_TEST(!window.open());
  window.credit(4001);
  BOOST_TEST(window.open());
  window.credit(10);  // said earlier, and overtaken
  BOOST_TEST(window.open());
  BOOST_CHECK_THROW(window.credit(5001), MessageError);
}

BOOST_AUTO_TEST_CASE(a_sender_that_waits_for_credit_never_exceeds_the_receivers_window_and_always_gets_some) {
  SendWindow sender(1000);
  ReceiveWindow receiver(1000);
  std::vector<uint64_t> unstarted;
  uint64_t sent = 0;
  for (uint64_t step = 0; step < 10'000; ++step) {
    const uint64_t cost = 1 + step * 7919 % 400;
    if (sender.open()) {
      sender.sent(cost);
      receiver.received(cost);
      unstarted.push_back(cost);
      sent += cost;
      continue;
    }
    BOOST_REQUIRE(!unstarted.empty());  // else it would be closed for ever
    if (const auto credit = receiver.started(unstarted.back())) sender.credit(*credit);
    unstarted.pop_back();
  }
  BOOST_TEST(sent > 100'000u);
}

BOOST_AUTO_TEST_CASE(a_request_without_credit_is_refused) {
  ReceiveWindow receiver(1000);
  receiver.received(999);
  receiver.received(5000);
  BOOST_CHECK_THROW(receiver.received(1), MessageError);
  BOOST_TEST(receiver.started(249).has_value() == false);
  BOOST_TEST(receiver.started(5001).value() == 5250u);
  receiver.received(1);
}

BOOST_AUTO_TEST_SUITE_END()
