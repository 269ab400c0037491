#include "tests/rpc/wire/frames.h"

BOOST_AUTO_TEST_SUITE(wire)

using namespace wire_frames;

BOOST_AUTO_TEST_CASE(the_checksum_is_crc32c) {
  // RFC 3720, B.4
  BOOST_TEST(crc32c(Bytes(32)) == 0x8A9136AAu);
  BOOST_TEST(crc32c(Bytes(32, std::byte{0xFF})) == 0x62A8AB43u);
  BOOST_TEST(crc32c(bytes_of("123456789")) == 0xE3069283u);
  BOOST_TEST(crc32c({}) == 0u);
  BOOST_TEST(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))) == 0xE3069283u);  // continued from a prefix
}

BOOST_AUTO_TEST_CASE(small_messages_have_golden_bytes_both_ways) {
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

BOOST_AUTO_TEST_CASE(contexts_have_golden_bytes_both_ways) {
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

BOOST_AUTO_TEST_CASE(tensors_have_golden_bytes_both_ways) {
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

  // For writing, clear requires_grad in the golden bytes: it needs a history, which tensor/ alone cannot create.
  Message again;
  again.kind = MessageKind::reply;
  again.call_id = 9;
  again.payload = numbers({0, 1, 2, 3, 4, 5});
  again.tensors = read.tensors;
  Bytes expected = golden("tensors.bin");
  expected[kFrameHeaderBytes + 4] = std::byte{0};
  BOOST_TEST((bytes_of(Frame(again)) == expected));
}

BOOST_AUTO_TEST_CASE(devices_have_golden_bytes_both_ways) {
  const auto cuda = [](int8_t index) { return Device{DeviceType::cuda, index}; };
  const std::vector<Placement> placements = {
      {.from = cuda(0), .to = cuda(1)}, {.from = cuda(127), .to = kCPU}, {.from = kCPU, .to = cuda(0)}};
  Message read = one_message(golden("devices.bin"));
  BOOST_TEST((read.placements == placements));
  BOOST_TEST((read.requires_grad == std::vector<bool>{true, false, false}));
  // The reader makes CPU tensors; the session moves them to their devices.
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

BOOST_AUTO_TEST_CASE(cpu_tensors_are_sent_without_placements) {
  Message message;
  message.tensors = {raw::zeros({4})};
  const Bytes plain = bytes_of(Frame(message));
  message.placements = {{}};
  BOOST_TEST((bytes_of(Frame(message)) == plain));
  BOOST_TEST(one_message(plain).placements.empty());
}

BOOST_AUTO_TEST_CASE(references_have_golden_bytes_both_ways) {
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

BOOST_AUTO_TEST_CASE(tensors_are_aligned_and_not_copied) {
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

BOOST_AUTO_TEST_CASE(frame_can_be_gathered_from_any_byte) {
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

BOOST_AUTO_TEST_CASE(every_tensor_layout_keeps_its_values) {
  const Tensor base = raw::arange(0, 120, 1, kFloat32);
  const Tensor block = raw::view(base, {4, 5, 6});
  const Tensor layouts[] = {
      block,
      raw::permute(block, {2, 0, 1}),
      raw::transpose(block, 0, 2),
      raw::narrow(block, 0, 1, 2),
      raw::narrow(block, 1, 1, 3),
      block.slice(2, 0, 6, 2),
      raw::permute(block.slice(2, 1, 6, 2), {2, 0, 1}),
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

BOOST_AUTO_TEST_CASE(dense_strides_survive) {
  const Tensor block = raw::view(raw::arange(0, 24, 1, kFloat32), {2, 3, 4});
  BOOST_TEST(travelled(raw::permute(block, {2, 0, 1})).strides() == (Dims{1, 12, 4}));
  BOOST_TEST(travelled(raw::expand(raw::full({3, 1}, 1.0), {3, 5})).strides() == (Dims{1, 0}));
  // With gaps, the tensor is packed in the order of its strides.
  BOOST_TEST(travelled(raw::transpose(raw::view(block, {6, 4}).slice(1, 0, 4, 2), 0, 1)).strides() == (Dims{1, 2}));
}

BOOST_AUTO_TEST_CASE(views_are_sent_without_unused_storage) {
  const Tensor big = raw::zeros({1 << 20});
  Message message;
  message.tensors.push_back(big.slice(0, 0, 1 << 20, 1 << 10));
  BOOST_TEST(Frame(message).size() < 10'000u);
  message.tensors[0] = raw::expand(raw::full({1}, 1.0), {1 << 20});
  BOOST_TEST(Frame(message).size() < 10'000u);
}

BOOST_AUTO_TEST_CASE(every_dtype_survives_packed_and_dense) {
  for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
    const Tensor tensor = raw::cast(raw::view(raw::arange(0, 12), {3, 4}), static_cast<DType>(dtype));
    for (const Tensor& layout : {tensor, raw::transpose(tensor, 0, 1), tensor.slice(1, 0, 4, 3)}) {
      const Tensor arrived = travelled(layout);
      BOOST_TEST(arrived.dtype() == layout.dtype());
      BOOST_TEST(same_elements(raw::cast(arrived, kFloat64), raw::cast(layout, kFloat64)));
    }
  }
}

BOOST_AUTO_TEST_CASE(chunk_size_does_not_change_messages) {
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

BOOST_AUTO_TEST_CASE(large_tensor_is_received_without_copying) {
  Message message;
  message.tensors = {raw::zeros({1 << 20})};
  const Bytes frame = bytes_of(Frame(message));
  FrameReader reader;
  Message none;
  // Bytes that arrived with the header may be copied; the reader must request most of the rest in one buffer.
  read_all(reader, std::span(frame).first(1000));
  BOOST_TEST(!reader.next(none));
  BOOST_TEST(!reader.idle());
  BOOST_TEST(reader.prepare()[0].size > (4u << 20) - 1000);
}

BOOST_AUTO_TEST_CASE(looped_back_message_equals_a_sent_one) {
  Message message = everything();
  message.tensors.push_back(raw::arange(0, 10, 1, kFloat32).slice(0, 0, 10, 3));
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

BOOST_AUTO_TEST_CASE(undefined_tensor_in_message_is_refused) {
  Message message;
  message.tensors.emplace_back();
  BOOST_CHECK_THROW(Frame{message}, MessageError);
}

BOOST_AUTO_TEST_SUITE_END()
