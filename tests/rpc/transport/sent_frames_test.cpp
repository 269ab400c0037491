// Tests which frames are kept until they are acknowledged, and which are sent again.
#include "tendril/rpc/transport/sent_frames.h"
#include "tests/seed.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(sent_frames)

using namespace tendril::rpc;
using tendril::testing::seeds;

namespace {

FrameList frames(uint64_t first, uint64_t count) {
  FrameList list;
  for (uint64_t id = first; id < first + count; ++id) {
    Message message;
    message.kind = MessageKind::reply;
    message.call_id = id;
    list.emplace_back(std::move(message));
  }
  return list;
}

std::vector<uint64_t> ids(const FrameList& list) {
  std::vector<uint64_t> ids;
  for (const Frame& frame : list) ids.push_back(frame.call_id());
  return ids;
}

void write(SentFrames& sent, FrameList list) {
  sent.taken(list.size());
  sent.written(list);
}

}  // namespace

BOOST_AUTO_TEST_CASE(unacknowledged_frames_are_resent_in_order) {
  SentFrames sent;
  write(sent, frames(1, 5));
  BOOST_TEST(sent.bytes().total() == 5 * kFrameHeaderBytes);
  BOOST_TEST(ids(sent.acknowledged(2)) == (std::vector<uint64_t>{1, 2}), boost::test_tools::per_element());
  FrameList queue = frames(6, 2);
  BOOST_TEST(ids(sent.resumed(3, queue)) == (std::vector<uint64_t>{3}), boost::test_tools::per_element());
  BOOST_TEST(ids(queue) == (std::vector<uint64_t>{4, 5, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(sent.bytes().total() == 0u);
}

BOOST_AUTO_TEST_CASE(acknowledgement_may_precede_written) {
  SentFrames sent;
  FrameList hand = frames(1, 3);
  sent.taken(3);
  BOOST_TEST(sent.acknowledged(2).empty());
  BOOST_TEST(ids(sent.written(hand)) == (std::vector<uint64_t>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(sent.bytes().total() == kFrameHeaderBytes);
  BOOST_TEST(ids(sent.acknowledged(3)) == (std::vector<uint64_t>{3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(impossible_counts_are_refused) {
  SentFrames sent;
  BOOST_CHECK_THROW(sent.acknowledged(1), MessageError);
  write(sent, frames(1, 4));
  sent.acknowledged(2);
  BOOST_CHECK_THROW(sent.acknowledged(5), MessageError);
  BOOST_CHECK_THROW(sent.acknowledged(1), MessageError);  // less than before
  FrameList queue;
  BOOST_CHECK_THROW(sent.resumed(1, queue), MessageError);
  BOOST_CHECK_THROW(sent.resumed(5, queue), MessageError);
  sent.resumed(4, queue);
  BOOST_TEST(queue.empty());
}

/// Sends frames over a connection that randomly loses those in flight: each must arrive once, in order.
BOOST_AUTO_TEST_CASE(each_frame_arrives_once_despite_losses) {
  for (const uint64_t seed : seeds({}, 200)) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto chance = [&](unsigned in) { return random() % in == 0; };
    SentFrames sent;
    ReceivedFrames received;
    FrameList queue, on_the_way;
    uint64_t next = 1, seen = 0;
    while (seen < 300) {
      if (next <= 300 && !chance(3)) queue.splice(queue.end(), frames(next++, 1));
      if (!queue.empty() && chance(2)) {
        on_the_way.splice(on_the_way.end(), frames(queue.front().call_id(), 1));
        FrameList one;
        one.splice(one.end(), queue, queue.begin());
        sent.taken(1);
        sent.written(one);
      }
      if (!on_the_way.empty() && chance(2)) {
        BOOST_REQUIRE(on_the_way.front().call_id() == ++seen);
        on_the_way.pop_front();
        if (received.received(kFrameHeaderBytes)) sent.acknowledged(received.say());
      }
      if (chance(5)) sent.acknowledged(received.say());
      if (chance(20)) {  // the connection is lost and replaced
        on_the_way.clear();
        sent.resumed(received.count(), queue);
      }
    }
    BOOST_TEST(received.count() == 300u);
  }
}

BOOST_AUTO_TEST_SUITE_END()
