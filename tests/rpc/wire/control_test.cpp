#include "tendril/rpc/wire/control.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>

#include "tendril/rpc/error.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(control)

namespace {

using std::chrono::milliseconds;
using tendril::rpc::Bytes;
using tendril::rpc::Clock;
using tendril::rpc::ControlChannel;
using tendril::rpc::ControlRecord;
using tendril::rpc::MessageError;
using tendril::rpc::MessageKind;
using tendril::testing::seeds;

const Clock::time_point kStart{std::chrono::hours(1)};

ControlRecord record(uint64_t number) {
  ControlRecord r;
  r.kind = static_cast<ControlRecord::Kind>(1 + number % 9);
  r.message = number % 2 == 0 ? MessageKind::request : MessageKind::reply;
  r.call_id = number;
  r.rref.worker = 3;
  r.rref.incarnation = ~number;
  r.rref.number = number << 40;
  r.fork.worker = -1;
  r.fork.incarnation = 5;
  r.fork.number = number * number;
  return r;
}

std::vector<ControlRecord> records(uint64_t first, uint64_t count) {
  std::vector<ControlRecord> all;
  for (uint64_t i = 0; i < count; ++i) all.push_back(record(first + i));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(records_arrive_unchanged) {
  ControlChannel a, b;
  const auto sent = records(0, 20);
  const auto received = b.receive(a.send(sent, kStart), kStart);
  BOOST_TEST(received.size() == sent.size());
  BOOST_TEST((received == sent));
}

BOOST_AUTO_TEST_CASE(delayed_acknowledgement_ends_retries) {
  ControlChannel a, b;
  b.receive(a.send(records(0, 3), kStart), kStart);
  BOOST_TEST(a.unacknowledged() == 3u);
  BOOST_TEST((b.next_timer() == kStart + ControlChannel::kAckDelay));
  BOOST_TEST(b.on_timer(kStart + ControlChannel::kAckDelay - milliseconds(1)).empty());
  const auto acks = b.on_timer(kStart + ControlChannel::kAckDelay);
  BOOST_REQUIRE(acks.size() == 1u);
  BOOST_TEST(a.receive(acks[0], kStart + milliseconds(30)).empty());
  BOOST_TEST(a.unacknowledged() == 0u);
  BOOST_TEST((a.next_timer() == Clock::time_point::max()));
  BOOST_TEST((b.next_timer() == Clock::time_point::max()));
}

BOOST_AUTO_TEST_CASE(records_carry_acknowledgements) {
  ControlChannel a, b;
  b.receive(a.send(records(0, 3), kStart), kStart);
  a.receive(b.send(records(100, 1), kStart), kStart);
  BOOST_TEST(a.unacknowledged() == 0u);
}

BOOST_AUTO_TEST_CASE(lost_records_are_resent_with_backoff) {
  ControlChannel a, b;
  a.send(records(0, 2), kStart);  // lost
  Clock::time_point now = kStart;
  Clock::duration last{};
  for (int i = 0; i < 8; ++i) {
    const Clock::duration wait = a.next_timer() - now;
    BOOST_TEST((wait >= last));
    BOOST_TEST((wait <= Clock::duration(ControlChannel::kLastRetry)));
    last = wait;
    now = a.next_timer();
    BOOST_TEST(a.on_timer(now).size() == 1u);
  }
  now = a.next_timer();
  const auto again = a.on_timer(now);
  BOOST_REQUIRE(again.size() == 1u);
  BOOST_TEST((b.receive(again[0], now) == records(0, 2)));
  a.receive(b.on_timer(now + ControlChannel::kAckDelay).at(0), now);
  a.send(records(2, 1), now);
  BOOST_TEST((a.next_timer() == now + ControlChannel::kFirstRetry));  // progress resets the interval
}

BOOST_AUTO_TEST_CASE(repeated_message_is_applied_once) {
  ControlChannel a, b;
  const Bytes message = a.send(records(0, 5), kStart);
  BOOST_TEST(b.receive(message, kStart).size() == 5u);
  b.on_timer(kStart + ControlChannel::kAckDelay);  // lost
  BOOST_TEST(b.receive(message, kStart + milliseconds(300)).empty());
  BOOST_TEST(b.on_timer(kStart + milliseconds(400)).size() == 1u);
}

BOOST_AUTO_TEST_CASE(faulty_network_preserves_records_and_order) {
  for (const uint64_t seed : seeds({}, 200)) {
    std::mt19937_64 random(seed);
    const auto chance = [&](double p) { return std::uniform_real_distribution<double>(0, 1)(random) < p; };
    struct Side {
      ControlChannel channel;
      std::vector<Bytes> incoming;
      uint64_t sent = 0, received = 0;
    } sides[2];
    Clock::time_point now = kStart;
    const auto put = [&](int to, Bytes message) {
      if (chance(0.3)) return;
      if (chance(0.3)) sides[to].incoming.push_back(message);
      sides[to].incoming.push_back(std::move(message));
    };
    for (int step = 0; step < 3000; ++step) {
      const int at = static_cast<int>(random() % 2);
      Side& side = sides[at];
      if (step < 1000 && chance(0.3)) {
        const uint64_t count = 1 + random() % 5;
        put(1 - at, side.channel.send(records(side.sent, count), now));
        side.sent += count;
      }
      if (!side.incoming.empty()) {
        const std::size_t next = random() % side.incoming.size();
        const Bytes message = std::move(side.incoming[next]);
        side.incoming.erase(side.incoming.begin() + static_cast<std::ptrdiff_t>(next));
        for (const ControlRecord& r : side.channel.receive(message, now)) {
          BOOST_REQUIRE((r == record(side.received)));
          ++side.received;
        }
      }
      now += milliseconds(random() % 50);
      for (Bytes& message : side.channel.on_timer(now)) put(1 - at, std::move(message));
    }
    for (int i = 0; i < 2; ++i) BOOST_TEST(sides[i].received == sides[1 - i].sent, "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(records_far_ahead_are_discarded) {
  ControlChannel a, b;
  const Bytes first = a.send(records(0, 1), kStart);
  std::vector<Bytes> later;
  const uint64_t count = 3 * ControlChannel::kMaxAhead;
  for (uint64_t i = 1; i <= count; ++i) later.push_back(a.send(records(i, 1), kStart));
  for (const Bytes& message : later) BOOST_TEST(b.receive(message, kStart).empty());
  BOOST_TEST(b.receive(first, kStart).size() == 1 + ControlChannel::kMaxAhead);
  // The rest arrives with the retries, one window at a time.
  uint64_t received = 1 + ControlChannel::kMaxAhead;
  Clock::time_point now = kStart;
  for (int round = 0; round < 10 && received <= count; ++round) {
    now = std::max(a.next_timer(), now) + ControlChannel::kAckDelay;
    for (const Bytes& ack : b.on_timer(now)) a.receive(ack, now);
    now = std::max(a.next_timer(), now);
    for (const Bytes& message : a.on_timer(now)) received += b.receive(message, now).size();
  }
  BOOST_TEST(received == count + 1);
}

BOOST_AUTO_TEST_CASE(truncated_messages_are_rejected) {
  ControlChannel a;
  const Bytes good = a.send(records(0, 2), kStart);
  for (std::size_t size = 0; size < good.size(); ++size) {
    ControlChannel b;
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    BOOST_CHECK_THROW(b.receive(cut, kStart), MessageError);
  }
}

BOOST_AUTO_TEST_CASE(bit_flips_only_change_records) {
  ControlChannel a;
  const Bytes good = a.send(records(0, 3), kStart);
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    ControlChannel b;
    Bytes bad = good;
    bad[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    try {
      BOOST_TEST(b.receive(bad, kStart).size() <= 3u);
    } catch (const MessageError&) {
    }
  }
}

BOOST_AUTO_TEST_CASE(acknowledgement_of_unsent_record_is_rejected) {
  ControlChannel a, b;
  Bytes message = a.send(records(0, 1), kStart);
  const uint64_t acknowledged = 1;
  std::memcpy(message.data(), &acknowledged, sizeof acknowledged);
  BOOST_CHECK_THROW(b.receive(message, kStart), MessageError);
}

BOOST_AUTO_TEST_CASE(record_count_above_limit_is_rejected) {
  ControlChannel a, b;
  Bytes message = a.send({}, kStart);
  const uint32_t count = 0xFFFFFFFF;
  std::memcpy(message.data() + 16, &count, sizeof count);
  BOOST_CHECK_THROW(b.receive(message, kStart), MessageError);
}

BOOST_AUTO_TEST_SUITE_END()
