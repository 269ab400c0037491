#include "tendril/rpc/wire/wire.h"

#include <boost/test/unit_test.hpp>

#include "tendril/tensor/raw.h"
#include "tests/rpc/messages.h"

BOOST_AUTO_TEST_SUITE(wire)

using namespace tendril;
using namespace tendril::rpc;
using namespace tendril::rpc::testing;

namespace {

Message one_message(const Bytes& bytes, const Limits& limits = {}) {
  FrameReader reader(limits);
  std::vector<Message> messages = read_all(reader, bytes);
  BOOST_REQUIRE_EQUAL(messages.size(), 1u);
  BOOST_TEST(reader.idle());
  return std::move(messages[0]);
}

Message travelled(Message message) { return one_message(bytes_of(Frame(std::move(message)))); }

Tensor travelled(const Tensor& tensor) {
  Message message;
  message.tensors.push_back(tensor);
  return travelled(std::move(message)).tensors.at(0);
}

Bytes numbers(std::initializer_list<uint32_t> values) {
  Bytes bytes(values.size() * 4);
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

/// A frame's header with some of its bytes changed and the checksum made right again.
template <class T>
Bytes patched(Bytes frame, std::size_t offset, T value) {
  std::memcpy(frame.data() + offset, &value, sizeof value);
  const uint32_t crc = crc32c(std::span(frame).first(kFrameHeaderBytes - 4));
  std::memcpy(frame.data() + kFrameHeaderBytes - 4, &crc, 4);
  return frame;
}

std::string complaint(const Bytes& bytes, const Limits& limits = {}) {
  FrameReader reader(limits);
  try {
    read_all(reader, bytes);
  } catch (const MessageError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

Message everything() {
  Message message;
  message.kind = MessageKind::reply;
  message.call_id = 99;
  message.extension = bytes_of("extension");
  message.payload = bytes_of("the payload of the message");
  message.tensors = {raw::arange(0, 40, 1, kFloat32), raw::transpose(raw::full({3, 5}, 2.5), 0, 1),
                     raw::full({7}, 1, kBool), raw::full({}, -4, kInt64)};
  message.forks.push_back({ForkDescriptor::fork, 1, 2, {{3, 4, 5}}, {{6, 7, 8}}});
  return message;
}

/// A frame in parts of so many bytes each.
Bytes in_parts(Message message, std::vector<std::size_t> parts) {
  Frame frame(std::move(message));
  frame.announce_parts();
  const Bytes whole = bytes_of(frame);
  Bytes bytes(whole.begin(), whole.begin() + kFrameHeaderBytes);
  std::size_t at = kFrameHeaderBytes;
  for (const std::size_t part : parts) {
    const auto header = part_header(part, 0);
    bytes.insert(bytes.end(), header.begin(), header.end());
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(at);
    bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(part));
    at += part;
  }
  return bytes;
}

Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Message with_bytes(int64_t tensor_bytes, std::size_t payload_bytes = 0) {
  Message message;
  message.payload.resize(payload_bytes);
  if (tensor_bytes > 0) message.tensors = {raw::zeros({tensor_bytes}, kUInt8)};
  return message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_checksum_is_crc32c) {
  // RFC 3720, B.4
  BOOST_TEST(crc32c(Bytes(32)) == 0x8A9136AAu);
  BOOST_TEST(crc32c(Bytes(32, std::byte{0xFF})) == 0x62A8AB43u);
  BOOST_TEST(crc32c(bytes_of("123456789")) == 0xE3069283u);
  BOOST_TEST(crc32c({}) == 0u);
}

BOOST_AUTO_TEST_CASE(small_messages_have_the_golden_bytes_both_ways) {
  Message ping;
  ping.kind = MessageKind::ping;
  BOOST_TEST((bytes_of(Frame(ping)) == golden("ping.bin")));
  BOOST_TEST((one_message(golden("ping.bin")).kind == MessageKind::ping));

  Message goodbye;
  goodbye.kind = MessageKind::goodbye;
  BOOST_TEST((bytes_of(Frame(goodbye)) == golden("goodbye.bin")));

  Message credit;
  credit.kind = MessageKind::credit;
  credit.payload = numbers({0x23456789, 1});
  BOOST_TEST((bytes_of(Frame(credit)) == golden("credit.bin")));
  BOOST_TEST((one_message(golden("credit.bin")).payload == credit.payload));

  Message request;
  request.call_id = 7;
  request.function = 0x0123456789ABCDEF;
  request.timeout_us = 60'000'000;
  request.payload = numbers({0xFFFFFFFD, 5, 0});
  const Bytes hello = bytes_of("hello");
  request.payload.insert(request.payload.end(), hello.begin(), hello.end());
  BOOST_TEST((bytes_of(Frame(request)) == golden("request.bin")));
  const Message read = one_message(golden("request.bin"));
  BOOST_TEST((read.kind == MessageKind::request));
  BOOST_TEST(read.call_id == 7u);
  BOOST_TEST(read.function == 0x0123456789ABCDEFu);
  BOOST_TEST(read.timeout_us == 60'000'000u);
  BOOST_TEST((read.payload == request.payload));

  Message error;
  error.kind = MessageKind::error;
  error.call_id = 7;
  error.payload = bytes_of("what went wrong");
  BOOST_TEST((bytes_of(Frame(error)) == golden("error.bin")));
  BOOST_TEST((one_message(golden("error.bin")).payload == error.payload));
}

BOOST_AUTO_TEST_CASE(contexts_have_the_golden_bytes_both_ways) {
  Message message;
  message.depth = 3;
  message.call_id = 8;
  message.function = 1;
  message.autograd_context = 0x0002000000000005;
  message.autograd_message = 0x0002000000000009;
  message.trace_id = 0xAAAAAAAAAAAAAAAA;
  message.span_id = 0xBBBBBBBBBBBBBBBB;
  message.extension = bytes_of("who am I");
  message.payload = bytes_of("\1");
  BOOST_TEST((bytes_of(Frame(message)) == golden("context.bin")));
  const Message read = one_message(golden("context.bin"));
  BOOST_TEST(int{read.depth} == 3);
  BOOST_TEST(read.autograd_context == message.autograd_context);
  BOOST_TEST(read.autograd_message == message.autograd_message);
  BOOST_TEST(read.trace_id == message.trace_id);
  BOOST_TEST(read.span_id == message.span_id);
  BOOST_TEST((read.extension == message.extension));
}

BOOST_AUTO_TEST_CASE(tensors_have_the_golden_bytes_both_ways) {
  const Message read = one_message(golden("tensors.bin"));
  BOOST_REQUIRE_EQUAL(read.tensors.size(), 6u);
  const Tensor& matrix = read.tensors[0];
  BOOST_TEST(matrix.sizes() == (Dims{2, 3}));
  BOOST_TEST((matrix.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5}));
  BOOST_TEST(read.tensors[1].item<int64_t>() == -1);
  BOOST_TEST(read.tensors[2].strides() == (Dims{1, 3}));
  BOOST_TEST((read.tensors[2].to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5}));
  BOOST_TEST(read.tensors[3].strides() == (Dims{0, 1}));
  BOOST_TEST((read.tensors[3].to_vector<double>() == std::vector<double>{0.5, 0.25, 0.5, 0.25, 0.5, 0.25, 0.5, 0.25}));
  BOOST_TEST(read.tensors[4].sizes() == (Dims{0, 5}));
  BOOST_TEST((read.tensors[5].to_vector<bool>() == std::vector<bool>{true, false, true}));
  BOOST_TEST((read.requires_grad == std::vector<bool>{true, false, false, false, false, false}));

  // The other way: the flag is the history's, which tensor/ alone cannot make; so it is cleared in the golden bytes.
  Message again;
  again.kind = MessageKind::reply;
  again.call_id = 9;
  again.payload = numbers({0, 1, 2, 3, 4, 5});
  again.tensors = read.tensors;
  Bytes expected = golden("tensors.bin");
  expected[kFrameHeaderBytes + 4] = std::byte{0};
  BOOST_TEST((bytes_of(Frame(again)) == expected));
}

BOOST_AUTO_TEST_CASE(devices_have_the_golden_bytes_both_ways) {
  const auto cuda = [](int8_t index) { return Device{DeviceType::cuda, index}; };
  const std::vector<Placement> placements = {
      {.from = cuda(0), .to = cuda(1)}, {.from = cuda(127), .to = kCPU}, {.from = kCPU, .to = cuda(0)}};
  Message read = one_message(golden("devices.bin"));
  BOOST_TEST((read.placements == placements));
  BOOST_TEST((read.requires_grad == std::vector<bool>{true, false, false}));
  // Where they are to be is the session's affair: a reader makes memory of the CPU.
  BOOST_TEST((read.tensors[0].to_vector<float>() == std::vector<float>{1, 2}));

  Message again;
  again.call_id = 11;
  again.function = 3;
  again.payload = numbers({0, 1, 2});
  again.tensors = read.tensors;
  again.requires_grad = read.requires_grad;
  again.placements = placements;
  BOOST_TEST((bytes_of(Frame(again)) == golden("devices.bin")));
}

BOOST_AUTO_TEST_CASE(tensors_of_the_cpu_travel_without_placements) {
  Message message;
  message.tensors = {raw::zeros({4})};
  const Bytes plain = bytes_of(Frame(message));
  message.placements = {{}};
  BOOST_TEST((bytes_of(Frame(message)) == plain));
  BOOST_TEST(one_message(plain).placements.empty());
}

BOOST_AUTO_TEST_CASE(references_have_the_golden_bytes_both_ways) {
  Message message;
  message.flags = kCreatesReference;
  message.call_id = 10;
  message.function = 2;
  message.payload = numbers({0});
  message.forks.push_back({ForkDescriptor::fork, 1, 0x1111, {{0, 0x2222, 3}}, {{2, 0x3333, 4}}});
  message.forks.push_back({ForkDescriptor::create, 1, 0x1111, {{2, 0x3333, 5}}, {{2, 0x3333, 6}}});
  BOOST_TEST((bytes_of(Frame(message)) == golden("references.bin")));
  BOOST_TEST((one_message(golden("references.bin")).forks == message.forks));
  BOOST_TEST(one_message(golden("references.bin")).flags == kCreatesReference);
}

BOOST_AUTO_TEST_CASE(tensors_are_aligned_in_the_frame_and_not_copied) {
  Message message;
  message.payload = bytes_of("odd");
  message.tensors = {raw::full({3}, 1.0), raw::full({5}, 2.0)};
  const void* const elements[] = {message.tensors[0].raw_data(), message.tensors[1].raw_data()};
  const Frame frame(std::move(message));
  std::array<ConstBuffer, 16> buffers;
  const std::size_t count = frame.gather(0, buffers);
  std::size_t offset = 0, found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (found < 2 && buffers[i].data == elements[found]) {
      BOOST_TEST(offset % kTensorAlignment == 0u);
      ++found;
    }
    offset += buffers[i].size;
  }
  BOOST_TEST(found == 2u);
  BOOST_TEST(offset == frame.size());
}

BOOST_AUTO_TEST_CASE(a_frame_can_be_gathered_from_any_byte_with_any_number_of_buffers) {
  const Frame frame(everything());
  const Bytes all = bytes_of(frame);
  BOOST_TEST(all.size() == frame.size());
  BOOST_TEST((bytes_of(frame, 1) == all));
  BOOST_TEST((bytes_of(frame, 3) == all));
  for (std::size_t from = 0; from < all.size(); ++from) {
    ConstBuffer first;
    BOOST_REQUIRE(frame.gather(from, {&first, 1}) == 1);
    BOOST_TEST(std::memcmp(first.data, all.data() + from, first.size) == 0);
  }
  ConstBuffer none;
  BOOST_TEST(frame.gather(frame.size(), {&none, 1}) == 0u);
}

BOOST_AUTO_TEST_CASE(every_layout_of_a_tensor_arrives_with_its_values) {
  const Tensor base = raw::arange(0, 120, 1, kFloat32);
  const Tensor block = raw::view(base, {4, 5, 6});
  const Tensor layouts[] = {
      block,
      raw::permute(block, {2, 0, 1}),
      raw::transpose(block, 0, 2),
      raw::narrow(block, 0, 1, 2),
      raw::narrow(block, 1, 1, 3),
      raw::slice(block, 2, 0, 6, 2),
      raw::permute(raw::slice(block, 2, 1, 6, 2), {2, 0, 1}),
      raw::select(block, 1, 3),
      raw::expand(raw::view(base, {120, 1}), {120, 4}),
      raw::expand(raw::narrow(raw::view(block, {4, 1, 30}), 2, 3, 5), {4, 7, 5}),
      raw::as_strided(base, {5, 4}, {2, 1}, 3),  // rows overlap
      raw::as_strided(base, {3, 3}, {1, 1}, 0),
      raw::narrow(block, 0, 1, 0),
      raw::view(raw::narrow(base, 0, 7, 1), {1, 1, 1}),
      raw::expand(raw::full({}, 3.0), {2, 2}),
  };
  for (const Tensor& tensor : layouts) {
    const Tensor arrived = travelled(tensor);
    BOOST_TEST(same_elements(arrived, tensor), "sizes " << tensor.sizes() << " strides " << tensor.strides());
    BOOST_TEST(arrived.storage()->bytes() <= tensor.storage()->bytes());
    BOOST_TEST(same_elements(travelled(arrived), tensor));
  }
}

BOOST_AUTO_TEST_CASE(strides_survive_where_the_block_has_no_gaps) {
  const Tensor block = raw::view(raw::arange(0, 24, 1, kFloat32), {2, 3, 4});
  BOOST_TEST(travelled(raw::permute(block, {2, 0, 1})).strides() == (Dims{1, 12, 4}));
  BOOST_TEST(travelled(raw::expand(raw::full({3, 1}, 1.0), {3, 5})).strides() == (Dims{1, 0}));
  // With gaps: packed, in the order of the strides.
  BOOST_TEST(travelled(raw::transpose(raw::slice(raw::view(block, {6, 4}), 1, 0, 4, 2), 0, 1)).strides() ==
             (Dims{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_view_travels_without_the_rest_of_its_storage) {
  const Tensor big = raw::zeros({1 << 20});
  Message message;
  message.tensors.push_back(raw::slice(big, 0, 0, 1 << 20, 1 << 10));
  BOOST_TEST(Frame(message).size() < 10'000u);
  message.tensors[0] = raw::expand(raw::full({1}, 1.0), {1 << 20});
  BOOST_TEST(Frame(message).size() < 10'000u);
}

BOOST_AUTO_TEST_CASE(every_dtype_travels_packed_and_dense) {
  for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
    const Tensor tensor = raw::cast(raw::view(raw::arange(0, 12), {3, 4}), static_cast<DType>(dtype));
    for (const Tensor& layout : {tensor, raw::transpose(tensor, 0, 1), raw::slice(tensor, 1, 0, 4, 3)}) {
      const Tensor arrived = travelled(layout);
      BOOST_TEST(arrived.dtype() == layout.dtype());
      BOOST_TEST(same_elements(raw::cast(arrived, kFloat64), raw::cast(layout, kFloat64)));
    }
  }
}

BOOST_AUTO_TEST_CASE(bytes_one_at_a_time_make_the_same_messages_as_all_at_once) {
  Bytes stream;
  for (const char* name : {"request.bin", "tensors.bin", "ping.bin", "references.bin", "context.bin"}) {
    const Bytes frame = golden(name);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  Message large;
  large.payload.resize(100'000, std::byte{7});
  large.tensors = {raw::arange(0, 50'000, 1, kFloat32), raw::arange(0, 10, 1, kInt64)};
  const Bytes frame = bytes_of(Frame(large));
  stream.insert(stream.end(), frame.begin(), frame.end());
  const Bytes last = golden("ping.bin");
  stream.insert(stream.end(), last.begin(), last.end());

  for (const std::size_t step : {SIZE_MAX, std::size_t{1}, std::size_t{7}, std::size_t{103}, std::size_t{4096}}) {
    FrameReader reader;
    const std::vector<Message> messages = read_all(reader, stream, step);
    BOOST_REQUIRE_EQUAL(messages.size(), 7u);
    BOOST_TEST(reader.idle());
    BOOST_TEST(messages[0].function == 0x0123456789ABCDEFu);
    BOOST_TEST(messages[1].tensors.size() == 6u);
    BOOST_TEST(messages[3].forks.size() == 2u);
    BOOST_TEST((messages[5].payload == large.payload));
    BOOST_TEST(same_elements(messages[5].tensors[0], large.tensors[0]));
    BOOST_TEST(same_elements(messages[5].tensors[1], large.tensors[1]));
    BOOST_TEST((messages[6].kind == MessageKind::ping));
  }
}

BOOST_AUTO_TEST_CASE(a_large_tensor_is_received_into_its_own_memory) {
  Message message;
  message.tensors = {raw::zeros({1 << 20})};
  const Bytes frame = bytes_of(Frame(message));
  FrameReader reader;
  Message none;
  // What has arrived with the header may be copied; of the rest the reader must ask for most in one piece.
  read_all(reader, std::span(frame).first(1000));
  BOOST_TEST(!reader.next(none));
  BOOST_TEST(!reader.idle());
  BOOST_TEST(reader.prepare()[0].size > (4u << 20) - 1000);
}

BOOST_AUTO_TEST_CASE(every_truncation_is_an_unfinished_message_and_never_a_wrong_one) {
  const Bytes frame = bytes_of(Frame(everything()));
  for (std::size_t size = 0; size < frame.size(); ++size) {
    FrameReader reader;
    BOOST_TEST(read_all(reader, std::span(frame).first(size)).empty());
    BOOST_TEST(reader.idle() == (size == 0));
  }
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_survived_and_none_of_the_headers_goes_unnoticed) {
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
      BOOST_CHECK_THROW(reader.next(message), MessageError);  // of no further use
    }
    if (bit / 8 < kFrameHeaderBytes) BOOST_TEST(refused, "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(every_byte_of_a_header_may_lie_with_a_right_checksum) {
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

BOOST_AUTO_TEST_CASE(limits_are_checked_from_the_header_before_anything_is_allocated) {
  const Bytes good = bytes_of(Frame(everything()));
  const Bytes header(good.begin(), good.begin() + kFrameHeaderBytes);
  BOOST_TEST(contains(complaint(patched(header, 64, uint64_t{1} << 62)), "bytes of arguments announced"));
  BOOST_TEST(contains(complaint(patched(header, 72, uint64_t{1} << 62)), "bytes of tensors announced"));
  BOOST_TEST(contains(complaint(patched(header, 80, uint32_t{1} << 31)), "bytes of extension announced"));
  BOOST_TEST(contains(complaint(patched(header, 84, uint32_t{1} << 31)), "tensor descriptors announced"));
  BOOST_TEST(contains(complaint(patched(header, 88, uint32_t{1} << 31)), "tensors announced"));
  BOOST_TEST(contains(complaint(patched(header, 92, uint32_t{1} << 31)), "references announced"));
}

BOOST_AUTO_TEST_CASE(a_message_over_the_receivers_limits_is_refused_by_the_sender) {
  Message message;
  message.payload.resize(100);
  BOOST_CHECK_THROW(Frame(message, {.max_payload_bytes = 99}), MessageError);
  message.tensors = {raw::zeros({100})};
  BOOST_CHECK_THROW(Frame(message, {.max_tensor_bytes = 399}), MessageError);
  BOOST_CHECK_NO_THROW(Frame(message, {.max_tensor_bytes = 400}));
  // Broadcast dimensions count as if they were written out.
  message.tensors = {raw::expand(raw::full({1}, 1.0), {100})};
  BOOST_CHECK_THROW(Frame(message, {.max_tensor_bytes = 399}), MessageError);
  const Bytes frame = bytes_of(Frame(message));
  BOOST_TEST(contains(complaint(frame, {.max_tensor_bytes = 399}), "limit"));
}

BOOST_AUTO_TEST_CASE(descriptors_that_lie_are_refused_before_their_tensor_is_made) {
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
      contains(complaint(with(3, uint8_t{1})), "strides"));  // 16 bytes of the next thing are left, or strides lie
  BOOST_TEST(contains(complaint(with(4, uint8_t{2})), "unknown flags"));
  BOOST_TEST(contains(complaint(with(8, uint64_t{63})), "announces 63 bytes"));
  BOOST_TEST(contains(complaint(with(16, int64_t{-4})), "negative"));
  BOOST_TEST(contains(complaint(with(16, int64_t{1} << 62)), "exceeds the limit"));
  BOOST_TEST(contains(complaint(with(16, int64_t{8})), "bytes"));
  BOOST_TEST(contains(complaint(with(32, int64_t{-1})), "negative"));
  BOOST_TEST(contains(complaint(with(32, int64_t{5})), "gaps or overlap"));
  BOOST_TEST(contains(complaint(with(32, int64_t{1})), "gaps or overlap"));
  BOOST_TEST(contains(complaint(with(32, int64_t{0})), "bytes"));
}

BOOST_AUTO_TEST_CASE(sizes_whose_product_overflows_are_refused) {
  Message message;
  message.tensors = {raw::zeros({2, 2, 2, 2, 2, 2, 2, 2})};
  Bytes bad = bytes_of(Frame(message));
  for (int d = 0; d < 8; ++d) {
    const int64_t size = int64_t{1} << 32;
    std::memcpy(bad.data() + kFrameHeaderBytes + 16 + 8 * static_cast<std::size_t>(d), &size, 8);
  }
  BOOST_TEST(contains(complaint(bad), "exceeds the limit"));
  // Also where another size is 0, so that the product is.
  const int64_t zero = 0;
  std::memcpy(bad.data() + kFrameHeaderBytes + 16, &zero, 8);
  BOOST_TEST(contains(complaint(bad), "exceeds the limit"));
}

BOOST_AUTO_TEST_CASE(bools_that_are_neither_0_nor_1_are_refused) {
  Message message;
  message.tensors = {raw::full({3}, 1, kBool)};
  Bytes bad = bytes_of(Frame(message));
  bad.back() = std::byte{2};
  BOOST_TEST(contains(complaint(bad), "dtype bool"));
}

BOOST_AUTO_TEST_CASE(a_message_to_oneself_arrives_as_over_the_wire) {
  Message message = everything();
  message.tensors.push_back(raw::slice(raw::arange(0, 10, 1, kFloat32), 0, 0, 10, 3));
  message.tensors.push_back(raw::expand(raw::full({1}, 2.0), {3}));
  const std::vector<Tensor> sent = message.tensors;
  const Message wired = travelled(message);
  const Message looped = looped_back(message);
  BOOST_REQUIRE_EQUAL(looped.tensors.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    BOOST_TEST(same_elements(looped.tensors[i], sent[i]));
    BOOST_TEST(looped.tensors[i].strides() == wired.tensors[i].strides());
    BOOST_TEST((looped.tensors[i].storage() != sent[i].storage()));
  }
  BOOST_TEST((looped.requires_grad == wired.requires_grad));
  BOOST_TEST((looped.payload == wired.payload));
}

BOOST_AUTO_TEST_CASE(an_undefined_tensor_in_a_message_is_an_error) {
  Message message;
  message.tensors.emplace_back();
  BOOST_CHECK_THROW(Frame{message}, MessageError);
}

BOOST_AUTO_TEST_CASE(a_frame_may_come_in_parts_with_others_between_them) {
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

BOOST_AUTO_TEST_CASE(frames_in_parts_have_the_golden_bytes) {
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
  BOOST_TEST((in_parts(std::move(message), {30, 1, 65}) == expected));
}

BOOST_AUTO_TEST_CASE(parts_that_cannot_be_are_refused) {
  const Bytes part = in_parts(with_bytes(0, 100), {50});
  const auto header = part_header(10, 0);
  const Bytes alone(header.begin(), header.end());
  BOOST_TEST(contains(complaint(alone), "a part of nothing"));
  BOOST_TEST(contains(complaint(in_parts(with_bytes(0, 100), {50, 50, 0})), "a part of nothing"));  // it has ended
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 64, uint64_t{51}))), "a part of 51 bytes, 50 are left"));
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 64, uint64_t{0}))), "a part of 0 bytes"));
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 64, UINT64_MAX))), "50 are left"));
  BOOST_TEST(contains(complaint(joined(part, patched(alone, 8, uint64_t{1}))), "more than its length"));
  BOOST_TEST(contains(complaint(joined(part, part)), "one that has not ended"));
  Frame nothing((Message()));
  nothing.announce_parts();
  BOOST_TEST(contains(complaint(bytes_of(nothing)), "nothing in it"));
  // Two large ones would be twice the memory that the limits say.
  const auto large = static_cast<int64_t>(kMaxBytesBetweenParts);
  BOOST_TEST(contains(complaint(joined(part, bytes_of(Frame(with_bytes(large))))), "between parts announced"));
  BOOST_TEST(complaint(joined(part, bytes_of(Frame(with_bytes(large - 4096))))) == "");
  // The limits hold for what comes in parts too.
  BOOST_TEST(contains(complaint(in_parts(with_bytes(0, 5000), {1}), {.max_payload_bytes = 4096}), "the limit is 4096"));
}

BOOST_AUTO_TEST_CASE(a_connection_that_ends_between_parts_has_lost_a_message) {
  FrameReader reader;
  BOOST_TEST(read_all(reader, in_parts(with_bytes(0, 100), {50})).empty());
  BOOST_TEST(!reader.idle());
}

BOOST_AUTO_TEST_SUITE_END()
