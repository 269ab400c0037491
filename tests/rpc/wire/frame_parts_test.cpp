// Tests large frames that come in parts, with other frames between the parts.
#include "tests/rpc/wire/frames.h"

BOOST_AUTO_TEST_SUITE(frame_parts)

using namespace wire_frames;

BOOST_AUTO_TEST_CASE(frames_may_come_between_parts) {
  const std::size_t body = Frame(everything()).size() - kFrameHeaderBytes;
  for (std::size_t part = 1; part < body; part += 7) {
    std::vector<std::size_t> parts(body / part, part);
    if (body % part > 0) parts.push_back(body % part);
    Bytes bytes = in_parts(everything(), parts);
    const Bytes between = bytes_of(Frame(with_bytes(100, 10)));
    const std::size_t first = kFrameHeaderBytes + kFrameHeaderBytes + part;  // another frame after the first part
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(first), between.begin(), between.end());
    FrameReader reader;
    const std::vector<Message> read = read_all(reader, bytes, 1 + part % 50);
    BOOST_REQUIRE_EQUAL(read.size(), 2u);
    BOOST_TEST(read[0].tensors.size() == 1u);
    BOOST_TEST(read[1].flags == 0);
    BOOST_TEST((bytes_of(Frame(read[1])) == bytes_of(Frame(everything()))));
    BOOST_TEST(reader.idle());
  }
}

BOOST_AUTO_TEST_CASE(frames_in_parts_have_golden_bytes) {
  FrameReader reader;
  const std::vector<Message> read = read_all(reader, golden("parts.bin"));
  BOOST_REQUIRE_EQUAL(read.size(), 2u);
  BOOST_TEST((read[0].kind == MessageKind::ping));
  BOOST_TEST(read[1].call_id == 12u);
  BOOST_TEST(static_cast<const float*>(read[1].tensors.at(0).raw_data())[1] == 2.0f);
  Message message;
  message.kind = MessageKind::reply;
  message.call_id = 12;
  message.payload = Bytes(4);
  message.tensors = {raw::arange(1, 3, 1, kFloat32)};
  Bytes expected = golden("parts.bin");
  const auto ping = expected.begin() + 2 * kFrameHeaderBytes + 30;
  expected.erase(ping, ping + kFrameHeaderBytes);
  const Bytes parts = in_parts(std::move(message), {30, 1, 65});
  BOOST_TEST((parts == expected));
}

BOOST_AUTO_TEST_CASE(invalid_parts_are_refused) {
  const Bytes part = in_parts(with_bytes(0, 100), {50});
  const auto header = part_header(10, 0);
  const Bytes alone(header.begin(), header.end());
  BOOST_TEST(contains(complaint(alone), "a part without a frame"));
  BOOST_TEST(contains(complaint(in_parts(with_bytes(0, 100), {50, 50, 0})), "a part without a frame"));  // it has ended
  BOOST_TEST(
      contains(complaint(joined(part, patched(alone, 64, uint64_t{51}))), "a part of 51 bytes, but 50 are left"));
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 64, uint64_t{0}))), "a part of 0 bytes"));
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 64, UINT64_MAX))), "50 are left"));
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 8, uint64_t{1}))), "unexpected fields"));
  BOOST_TEST(contains(complaint(joined(part, part)), "has not ended"));
  Frame nothing((Message()));
  nothing.announce_parts();
  BOOST_TEST(contains(complaint(bytes_of(nothing)), "but is empty"));
  // Two large ones would take twice the memory that the limits allow.
  const auto large = static_cast<int64_t>(kMaxBytesBetweenParts);
  BOOST_TEST(contains(complaint(joined(part, bytes_of(Frame(with_bytes(large))))), "between parts announced"));
  BOOST_TEST(complaint(joined(part, bytes_of(Frame(with_bytes(large - 4096))))) == "");
  // The limits also apply to frames in parts.
  BOOST_TEST(contains(complaint(in_parts(with_bytes(0, 5000), {1}), {.max_payload_bytes = 4096}), "the limit is 4096"));
}

BOOST_AUTO_TEST_CASE(reader_is_not_idle_between_parts) {
  FrameReader reader;
  BOOST_TEST(read_all(reader, in_parts(with_bytes(0, 100), {50})).empty());
  BOOST_TEST(!reader.idle());
}

BOOST_AUTO_TEST_SUITE_END()
