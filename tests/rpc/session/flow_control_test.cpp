#include "tendril/rpc/session/flow_control.h"

#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(flow_control)

using namespace tendril::rpc;

BOOST_AUTO_TEST_CASE(a_window_is_open_until_as_much_is_outstanding_and_one_request_always_goes) {
  SendWindow window(6400);
  BOOST_TEST(window.open(50'000));
  window.sent(50'000);
  BOOST_TEST(!window.open(1));
  window.credit(49'899);
  BOOST_TEST(!window.open(50'000));
  BOOST_TEST(window.open(3200 - 101));
  BOOST_TEST(!window.open(3200 - 100));
  window.credit(49'901);  // what is outstanding may have been started, and not been said
  BOOST_TEST(window.open(50'000));
  window.credit(10);  // said earlier, and overtaken
  BOOST_TEST(window.open(50'000));
  BOOST_CHECK_THROW(window.credit(50'001), MessageError);
}

BOOST_AUTO_TEST_CASE(what_handlers_send_has_room_where_others_have_none_each_depth_more_than_the_one_before) {
  SendWindow window(6400);
  window.sent(3200);
  BOOST_TEST(!window.open(1, 0));
  for (int depth = 1; depth <= SendWindow::kMaxDepth; ++depth) {
    BOOST_TEST(window.open(50, depth));
    BOOST_TEST(!window.open(50, depth - 1));
    while (window.open(50, depth)) window.sent(50);
  }
  window.credit(3200);
  BOOST_TEST(window.open(50, 0));
}

BOOST_AUTO_TEST_CASE(a_sender_that_waits_for_credit_never_exceeds_the_receivers_window_and_always_gets_some) {
  SendWindow sender(6400);
  ReceiveWindow receiver(6400);
  std::vector<uint64_t> unstarted;
  uint64_t sent = 0;
  for (uint64_t step = 0; step < 10'000; ++step) {
    const uint64_t cost = 1 + step * 7919 % 400;
    if (sender.open(cost, static_cast<int>(step % 17))) {
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
  BOOST_TEST(receiver.started(14).has_value() == false);
  BOOST_TEST(receiver.started(5236).value() == 5250u);
  receiver.received(1);
}

BOOST_AUTO_TEST_SUITE_END()
