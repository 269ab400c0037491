#include "tendril/rpc/transport/flow_control.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(flow_control)

using namespace tendril::rpc;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(window_limits_outstanding_cost) {
  SendWindow window(6400);
  BOOST_TEST(window.open(50'000));
  window.sent(50'000);
  BOOST_TEST(!window.open(1));
  window.credit(49'899);
  BOOST_TEST(!window.open(50'000));
  BOOST_TEST(window.open(3200 - 101));
  BOOST_TEST(!window.open(3200 - 100));
  window.credit(49'901);  // the rest may have been started without being reported
  BOOST_TEST(window.open(50'000));
  window.credit(10);  // an earlier report that was overtaken
  BOOST_TEST(window.open(50'000));
  BOOST_CHECK_THROW(window.credit(50'001), MessageError);
}

BOOST_AUTO_TEST_CASE(deeper_requests_have_more_room) {
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

BOOST_AUTO_TEST_CASE(sender_never_exceeds_the_receivers_window) {
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
    BOOST_REQUIRE(!unstarted.empty());  // otherwise the window would stay closed for ever
    if (const auto credit = receiver.started(unstarted.back())) sender.credit(*credit);
    unstarted.pop_back();
  }
  BOOST_TEST(sent > 100'000u);
}

BOOST_AUTO_TEST_CASE(small_requests_have_room_beside_large_ones) {
  constexpr uint64_t window = SendWindow::kLeastApart;
  for (const uint64_t large : {window / 4, window / 2, 2 * window, 100 * window}) {
    SendWindow sender(window);
    BOOST_TEST(sender.open_large(large));
    sender.reserve(large);
    BOOST_TEST(!sender.open_large(window / 4));
    uint64_t small = 0;
    for (; sender.open(2000); small += 2000) sender.sent(2000);
    BOOST_TEST(small + 2000 > window / 8);
    BOOST_TEST(small <= window / 2 - std::min(large, window / 8 * 3));
    sender.reserved_left(large);
    BOOST_TEST(!sender.open(2000));
    sender.credit(large + small);
    BOOST_TEST(sender.open(2000));
    BOOST_TEST(sender.open_large(large));
  }
  BOOST_TEST(!SendWindow(window - 1).large_apart());
}

BOOST_AUTO_TEST_CASE(mixed_requests_never_exceed_the_receivers_window) {
  constexpr uint64_t window = SendWindow::kLeastApart;
  std::mt19937_64 random(test_seed());
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int run = 0; run < 20; ++run) {
    SendWindow sender(window);
    ReceiveWindow receiver(window);
    std::deque<uint64_t> on_their_way;  // large requests; the front one leaves part by part
    std::vector<uint64_t> unstarted;
    uint64_t small = 0, large = 0;
    for (int step = 0; step < 20'000; ++step) {
      const auto depth = static_cast<int>(below(4) == 0 ? below(17) : 0);
      switch (below(6)) {
        case 0: {
          const uint64_t cost = (257 << 10) + below(below(8) == 0 ? 3 * window : window / 4);
          if (!sender.open_large(cost, depth)) break;
          sender.reserve(cost);
          on_their_way.push_back(cost);
          break;
        }
        case 1:  // a last part
          if (on_their_way.empty() || below(20) != 0) break;
          sender.reserved_left(on_their_way.front());
          receiver.received(on_their_way.front());  // throws if it has no room
          unstarted.push_back(on_their_way.front());
          on_their_way.pop_front();
          ++large;
          break;
        case 2:
          if (unstarted.empty() || below(3) == 0) break;
          std::swap(unstarted[below(unstarted.size())], unstarted.back());
          if (const auto credit = receiver.started(unstarted.back())) sender.credit(*credit);
          unstarted.pop_back();
          break;
        default: {
          const uint64_t cost = request_cost(below(256 << 10));
          if (!sender.open(cost, depth)) break;
          sender.sent(cost);
          receiver.received(cost);
          unstarted.push_back(cost);
          ++small;
        }
      }
    }
    BOOST_TEST(small > 100u);
    BOOST_TEST(large > 10u);
  }
}

BOOST_AUTO_TEST_CASE(request_without_credit_is_refused) {
  ReceiveWindow receiver(1000);
  receiver.received(999);
  receiver.received(5000);
  BOOST_CHECK_THROW(receiver.received(1), MessageError);
  BOOST_TEST(receiver.started(14).has_value() == false);
  BOOST_TEST(receiver.started(5236).value() == 5250u);
  receiver.received(1);
}

BOOST_AUTO_TEST_SUITE_END()
