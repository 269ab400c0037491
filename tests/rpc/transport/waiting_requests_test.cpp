// Tests the order in which requests that wait for room leave.
#include "tendril/rpc/transport/waiting_requests.h"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(waiting_requests)

using namespace tendril::rpc;

namespace {

void push(WaitingRequests& waiting, uint64_t call_id, uint8_t depth = 0) {
  Message message;
  message.kind = MessageKind::request;
  message.call_id = call_id;
  message.depth = depth;
  FrameList one;
  one.emplace_back(std::move(message));
  waiting.push(one);
  BOOST_REQUIRE(one.empty());
}

std::vector<uint64_t> ids(const FrameList& list) {
  std::vector<uint64_t> ids;
  for (const Frame& frame : list) ids.push_back(frame.call_id());
  return ids;
}

/// Admits as many requests as there is `room` for, and returns their ids.
std::vector<uint64_t> admitted(WaitingRequests& waiting, std::size_t room, int closed_to = -1) {
  FrameList to;
  waiting.admit(to, closed_to, [&](const Frame&) { return to.size() < room; });
  return ids(to);
}

using Ids = std::vector<uint64_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(requests_of_one_depth_keep_their_order) {
  WaitingRequests waiting;
  for (const uint64_t id : {3, 1, 2, 5}) push(waiting, id);
  BOOST_TEST(waiting.size() == 4u);
  BOOST_TEST((admitted(waiting, 2) == Ids{3, 1}));
  BOOST_TEST((admitted(waiting, 0) == Ids{}));
  BOOST_TEST((admitted(waiting, 9) == Ids{2, 5}));
  BOOST_TEST(waiting.empty());
}

BOOST_AUTO_TEST_CASE(deeper_requests_leave_first) {
  WaitingRequests waiting;
  push(waiting, 1, 0);
  push(waiting, 2, 1);
  push(waiting, 3, 2);
  push(waiting, 4, 1);
  BOOST_TEST(waiting.greatest_depth() == 2);
  BOOST_TEST(waiting.is_before(2));
  BOOST_TEST(!waiting.is_before(3));
  BOOST_TEST((admitted(waiting, 9, 1) == Ids{3}));
  BOOST_TEST(!waiting.is_before(2));
  FrameList to;
  waiting.admit(to, -1, [](const Frame& frame) { return frame.depth() == 0; });  // no room for the first in turn
  BOOST_TEST(to.empty());
  BOOST_TEST((admitted(waiting, 9) == Ids{2, 4, 1}));
  BOOST_TEST(!waiting.is_before(0));
}

BOOST_AUTO_TEST_CASE(withdrawal_keeps_the_others_order) {
  WaitingRequests waiting;
  for (uint64_t id = 1; id <= 5; ++id) push(waiting, id, id == 4 ? 1 : 0);
  FrameList withdrawn;
  BOOST_TEST(waiting.withdraw(2, withdrawn));
  BOOST_TEST(!waiting.withdraw(2, withdrawn));
  BOOST_TEST(waiting.withdraw(4, withdrawn));
  BOOST_TEST(!waiting.contains(4));
  BOOST_TEST(waiting.contains(5));
  BOOST_TEST(waiting.greatest_depth() == 0);
  BOOST_TEST((ids(withdrawn) == Ids{2, 4}));
  BOOST_TEST((admitted(waiting, 1) == Ids{1}));
  FrameList dropped;
  waiting.drop(dropped);
  BOOST_TEST((ids(dropped) == Ids{3, 5}));
  BOOST_TEST(waiting.empty());
}

BOOST_AUTO_TEST_SUITE_END()
