// Tests frames that are truncated, damaged or forged: wrong sizes, invalid tensors, exceeded limits.
#include "tests/rpc/wire/frames.h"

BOOST_AUTO_TEST_SUITE(hostile_frames)

using namespace wire_frames;

BOOST_AUTO_TEST_CASE(truncated_frames_stay_unfinished) {
  const Bytes frame = bytes_of(Frame(everything()));
  for (std::size_t size = 0; size < frame.size(); ++size) {
    FrameReader reader;
    BOOST_TEST(read_all(reader, std::span(frame).first(size)).empty());
    BOOST_TEST(reader.idle() == (size == 0));
  }
}

BOOST_AUTO_TEST_CASE(header_bit_flips_are_detected) {
  const Bytes good = bytes_of(Frame(everything()));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    FrameReader reader;
    bool refused = false;
    try {
      read_all(reader, bad);
    } catch (const MessageError&) {
      refused = true;
      Message message;
      BOOST_CHECK_THROW(reader.next(message), MessageError);  // the reader cannot be used any more
    }
    if (bit / 8 < kFrameHeaderBytes) BOOST_TEST(refused, "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(forged_headers_are_survived) {
  const Bytes good = bytes_of(Frame(everything()));
  const Limits limits{.max_extension_bytes = 1000,
                      .max_payload_bytes = 10'000,
                      .max_tensor_bytes = 10'000,
                      .max_tensors = 10,
                      .max_references = 10};
  for (std::size_t offset = 0; offset < kFrameHeaderBytes - 4; ++offset) {
    for (const uint8_t value : {0x00, 0x01, 0x7F, 0x80, 0xFF}) {
      FrameReader reader(limits);
      try {
        read_all(reader, patched(good, offset, value));
      } catch (const MessageError&) {
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(limits_are_checked_before_allocation) {
  const Bytes good = bytes_of(Frame(everything()));
  const Bytes header(good.begin(), good.begin() + kFrameHeaderBytes);
  for (const uint64_t length : {uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX}) {
    BOOST_TEST(contains(complaint(patched(header, 64, length)), "bytes of arguments announced"));
    BOOST_TEST(contains(complaint(patched(header, 72, length)), "bytes of tensors announced"));
  }
  BOOST_TEST(contains(complaint(patched(header, 80, uint32_t{1} << 31)), "bytes of extension announced"));
  BOOST_TEST(contains(complaint(patched(header, 84, uint32_t{1} << 31)), "tensor descriptors announced"));
  BOOST_TEST(contains(complaint(patched(header, 88, uint32_t{1} << 31)), "tensors announced"));
  BOOST_TEST(contains(complaint(patched(header, 92, uint32_t{1} << 31)), "references announced"));
  // Also for a frame without a body.
  BOOST_TEST(contains(complaint(patched(bytes_of(Frame(Message{})), 88, uint32_t{1})), "of tensor 0 is cut off"));
}

BOOST_AUTO_TEST_CASE(sender_enforces_the_receivers_limits) {
  Message message;
  message.payload.resize(100);
  BOOST_CHECK_THROW(Frame(message, {.max_payload_bytes = 99}), MessageError);
  message.tensors = {raw::zeros({100})};
  BOOST_CHECK_THROW(Frame(message, {.max_tensor_bytes = 399}), MessageError);
  BOOST_CHECK_NO_THROW(Frame(message, {.max_tensor_bytes = 400}));
  // Broadcast dimensions count as if they were expanded.
  message.tensors = {raw::expand(raw::full({1}, 1.0), {100})};
  BOOST_CHECK_THROW(Frame(message, {.max_tensor_bytes = 399}), MessageError);
  const Bytes frame = bytes_of(Frame(message));
  BOOST_TEST(contains(complaint(frame, {.max_tensor_bytes = 399}), "limit"));
}

BOOST_AUTO_TEST_CASE(invalid_descriptors_are_refused) {
  Message message;
  message.tensors = {raw::zeros({4, 4})};
  const Bytes good = bytes_of(Frame(message));
  const std::size_t descriptor = kFrameHeaderBytes;
  const auto with = [&](std::size_t offset, auto value) {
    Bytes bad = good;
    std::memcpy(bad.data() + descriptor + offset, &value, sizeof value);
    return bad;
  };
  BOOST_TEST(complaint(good) == "");
  BOOST_TEST(contains(complaint(with(0, uint8_t{8})), "unknown dtype 8"));
  BOOST_TEST(complaint(with(1, uint8_t{1})) == "");
  BOOST_TEST(contains(complaint(with(1, uint8_t{2})), "unknown device 2:0"));
  BOOST_TEST(contains(complaint(with(2, uint8_t{1})), "unknown device 0:1"));
  BOOST_TEST(contains(complaint(with(1, uint16_t{0x8001})), "unknown device 1:-128"));
  BOOST_TEST(contains(complaint(with(5, uint8_t{3})), "unknown device 3:0"));
  BOOST_TEST(contains(complaint(with(6, uint8_t{1})), "unknown device 0:1"));
  BOOST_TEST(contains(complaint(with(7, uint8_t{1})), "unknown flags"));
  BOOST_TEST(contains(complaint(with(3, uint8_t{9})), "9 dimensions"));
  BOOST_TEST(contains(complaint(with(3, uint8_t{7})), "cut off"));
  BOOST_TEST(
      contains(complaint(with(3, uint8_t{1})), "strides"));  // the size of the second dimension is read as a stride
  BOOST_TEST(contains(complaint(with(4, uint8_t{4})), "unknown flags"));
  BOOST_TEST(contains(complaint(with(8, uint64_t{63})), "announces 63 bytes"));
  BOOST_TEST(contains(complaint(with(16, int64_t{-4})), "negative"));
  BOOST_TEST(contains(complaint(with(16, int64_t{1} << 62)), "exceeds the limit"));
  BOOST_TEST(contains(complaint(with(16, int64_t{8})), "bytes"));
  BOOST_TEST(contains(complaint(with(32, int64_t{-1})), "negative"));
  BOOST_TEST(contains(complaint(with(32, int64_t{5})), "gaps or overlap"));
  BOOST_TEST(contains(complaint(with(32, int64_t{1})), "gaps or overlap"));
  BOOST_TEST(contains(complaint(with(32, int64_t{0})), "bytes"));
}

BOOST_AUTO_TEST_CASE(overflowing_sizes_are_refused) {
  Message message;
  message.tensors = {raw::zeros({2, 2, 2, 2, 2, 2, 2, 2})};
  Bytes bad = bytes_of(Frame(message));
  for (int d = 0; d < 8; ++d) {
    const int64_t size = int64_t{1} << 32;
    std::memcpy(bad.data() + kFrameHeaderBytes + 16 + 8 * static_cast<std::size_t>(d), &size, 8);
  }
  BOOST_TEST(contains(complaint(bad), "exceeds the limit"));
  // Also if another size is 0, so that the product is 0.
  const int64_t zero = 0;
  std::memcpy(bad.data() + kFrameHeaderBytes + 16, &zero, 8);
  BOOST_TEST(contains(complaint(bad), "exceeds the limit"));
}

BOOST_AUTO_TEST_CASE(invalid_bools_are_refused) {
  Message message;
  message.tensors = {raw::full({3}, 1, kBool)};
  Bytes bad = bytes_of(Frame(message));
  bad.back() = std::byte{2};
  BOOST_TEST(contains(complaint(bad), "dtype bool"));
}

BOOST_AUTO_TEST_SUITE_END()
