#include "tendril/rpc/group/sent_messages.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "tendril/rpc/simulation/random.h"
#include "tendril/rpc/wire/wire.h"
#include "tests/contains.h"

BOOST_AUTO_TEST_SUITE(sent_messages)

namespace rpc = tendril::rpc;
using rpc::MessageKind;
using rpc::detail::SentMessage;
using rpc::detail::SentMessages;
using tendril::test::contains;

namespace {

std::string bytes_of(const rpc::Message& message) {
  const rpc::Frame frame(message);
  std::string bytes;
  rpc::ConstBuffer buffer;
  while (bytes.size() < frame.size() && frame.gather(bytes.size(), {&buffer, 1}) == 1)
    bytes.append(static_cast<const char*>(buffer.data), buffer.size);
  return bytes;
}

rpc::Message message_of(MessageKind kind, uint64_t call_id, std::size_t payload) {
  return {.kind = kind, .call_id = call_id, .payload = rpc::Bytes(payload)};
}

/// The messages that are found in the bytes, sent in pieces of at most `piece` bytes.
std::map<uint64_t, SentMessage> found_in(std::string_view bytes, std::size_t piece) {
  SentMessages messages;
  std::map<uint64_t, SentMessage> found;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size())))
    messages.add(bytes.substr(0, piece), [&](const SentMessage& message) { found[message.number] = message; });
  return found;
}

const std::string kFrames = bytes_of(message_of(MessageKind::request, 7, 1000)) +
                            bytes_of(message_of(MessageKind::ping, 0, 0)) +
                            bytes_of(message_of(MessageKind::reply, 7, 1));

}  // namespace

BOOST_AUTO_TEST_CASE(frames_are_found_across_pieces) {
  for (const std::size_t piece : {1, 2, 11, 12, 13, 103, 104, 105, 500, 5000}) {
    const auto found = found_in(kFrames, piece);
    BOOST_REQUIRE(found.size() == 3U);
    BOOST_TEST(found.at(1).kind == "request");
    BOOST_TEST(found.at(1).call_id == 7U);
    BOOST_TEST(found.at(1).bytes == 1104U);
    BOOST_TEST(found.at(1).end == 1104U);
    BOOST_TEST(found.at(2).kind == "ping");
    BOOST_TEST(found.at(2).begin == 1104U);
    BOOST_TEST(found.at(3).kind == "reply");
    BOOST_TEST(found.at(3).end == kFrames.size());
  }
}

BOOST_AUTO_TEST_CASE(unfinished_frame_has_no_end) {
  const auto found = found_in(std::string_view(kFrames).substr(0, 600), 100);
  BOOST_REQUIRE(found.size() == 1U);
  BOOST_TEST(found.at(1).kind == "request");
  BOOST_TEST(found.at(1).end == 0U);
}

BOOST_AUTO_TEST_CASE(parts_belong_to_their_frame) {
  rpc::Frame large(message_of(MessageKind::request, 5, 1000));
  large.announce_parts();
  std::string whole;
  rpc::ConstBuffer buffer;
  while (whole.size() < large.size() && large.gather(whole.size(), {&buffer, 1}) == 1)
    whole.append(static_cast<const char*>(buffer.data), buffer.size);
  const auto part = [&](std::size_t from, std::size_t size) {
    const auto header = rpc::part_header(size, 0);
    return std::string(reinterpret_cast<const char*>(header.data()), header.size()) + whole.substr(from, size);
  };
  const std::string ping = bytes_of(message_of(MessageKind::ping, 0, 0));
  const std::string bytes = whole.substr(0, 104) + part(104, 600) + ping + part(704, 400) + ping;
  for (const std::size_t piece : {1, 100, 5000}) {
    const auto found = found_in(bytes, piece);
    BOOST_REQUIRE(found.size() == 3U);
    BOOST_TEST(found.at(1).kind == "request");
    BOOST_TEST(found.at(1).bytes == 1104U + 2 * 104);
    BOOST_TEST(found.at(1).end == bytes.size() - 104);
    BOOST_TEST(found.at(2).kind == "ping");
    BOOST_TEST(found.at(3).kind == "ping");
  }
}

BOOST_AUTO_TEST_CASE(unknown_bytes_are_separate_messages) {
  const auto found = found_in("GET / HTTP/1.1\r\n\r\n and more", 14);
  BOOST_REQUIRE(found.size() == 3U);
  for (const auto& [number, message] : found) BOOST_TEST(message.kind == "bytes");
  BOOST_TEST(found.rbegin()->second.end == 27U);
}

BOOST_AUTO_TEST_CASE(unreadable_contents_are_reported_as_text) {
  const auto found = found_in(bytes_of(message_of(MessageKind::group, 0, 3)), 1000);
  BOOST_REQUIRE(found.size() == 1U);
  BOOST_TEST(found.at(1).kind == "group");
  BOOST_TEST(contains(found.at(1).text, "cannot be read: "));
}

BOOST_AUTO_TEST_CASE(changed_bytes_do_no_harm) {
  rpc::detail::SimulationRandom random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = kFrames + kFrames;
    for (uint64_t changes = random.between(1, 4); changes > 0; --changes)
      bytes[random.below(bytes.size())] ^= static_cast<char>(1 << random.below(8));
    if (random.chance(0.3)) bytes.erase(random.below(bytes.size()), random.between(1, 200));
    uint64_t end = 0;
    for (const auto& [number, message] : found_in(bytes, random.between(1, 300))) {
      BOOST_REQUIRE(message.begin >= end);
      end = message.end;
      BOOST_REQUIRE(end <= bytes.size());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
