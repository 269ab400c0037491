// Tests lent tensors in frames, and lending messages.
#include "tendril/rpc/wire/lending_message.h"
#include "tendril/rpc/wire/wire_layout.h"
#include "tendril/rpc/wire/wire_tensor.h"
#include "tests/rpc/wire/frames.h"

BOOST_AUTO_TEST_SUITE(lending_frames)

using namespace wire_frames;

namespace {

constexpr Device kDevice{DeviceType::cuda, 0};

/// A message with a lent tensor between two that are not lent.
Message lent(DType dtype = kFloat32, Dims sizes = {3, 2}, Device to = kDevice) {
  Message message;
  message.call_id = 5;
  message.tensors = {raw::full({2}, 1.5), without_memory(sizes, dense_layout(sizes, contiguous_strides(sizes)), dtype),
                     raw::full({3}, 2.5)};
  message.placements = {{}, {.from = kDevice, .to = to}, {}};
  message.lent = {{}, {.segment = 7, .offset = 512, .id = 9}, {}};
  return message;
}

struct Account final : Lending {
  Account(int& left, int& back, int& gone) : left_(left), back_(back), gone_(gone) {}
  ~Account() override { ++gone_; }
  void leaves() noexcept override { ++left_; }
  void recalled() noexcept override { ++back_; }
  int &left_, &back_, &gone_;
};

std::string error_of(std::span<const std::byte> payload) {
  try {
    decode_lending(payload);
  } catch (const MessageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(lent_tensor_is_sent_as_a_place) {
  const Message sent = lent();
  const Message got = one_message(bytes_of(Frame(sent)));
  BOOST_TEST((got.lent == sent.lent));
  BOOST_TEST((got.placements == sent.placements));
  BOOST_TEST(got.tensors.at(1).sizes() == sent.tensors[1].sizes());
  BOOST_TEST(got.tensors[1].storage()->bytes() == 24u);
  BOOST_TEST(got.tensors[1].storage()->data() == nullptr);
  BOOST_TEST(raw::equal(got.tensors[0], sent.tensors[0]));
  BOOST_TEST(raw::equal(got.tensors[2], sent.tensors[2]));
  Message without = sent;
  without.lent.clear();
  without.tensors[1] = raw::zeros({3, 2});
  // Its place takes as many bytes as its elements would.
  BOOST_TEST(bytes_of(Frame(sent)).size() < bytes_of(Frame(without)).size() + kLentPlaceBytes);
}

BOOST_AUTO_TEST_CASE(invalid_lent_tensors_are_refused) {
  BOOST_TEST(contains(complaint(bytes_of(Frame(lent(kBool)))), "tensor 1 is lent, but is empty"));
  BOOST_TEST(contains(complaint(bytes_of(Frame(lent(kFloat32, {0, 2})))), "tensor 1 is lent, but is empty"));
  BOOST_TEST(contains(complaint(bytes_of(Frame(lent(kFloat32, {3, 2}, kCPU)))), "tensor 1 is lent, but is empty"));
  const Bytes good = bytes_of(Frame(lent()));
  const std::size_t second = kFrameHeaderBytes + tensor_descriptor_bytes(1),
                    place = second + tensor_descriptor_bytes(2);
  Bytes bad = good;
  bad[place + 4] = std::byte{1};
  BOOST_TEST(contains(complaint(bad), "the place of tensor 1 is malformed"));
  bad = good;
  bad[place + 16] = std::byte{0};
  BOOST_TEST(contains(complaint(bad), "the place of tensor 1 is malformed"));
  bad = good;
  bad[second + 8] = std::byte{24};
  BOOST_TEST(contains(complaint(bad), "announces 24 bytes, has 0"));
  bad = good;
  bad[second + 4] = std::byte{6};
  BOOST_TEST(contains(complaint(bad), "unknown flags"));
  for (std::size_t bit = 8 * kFrameHeaderBytes; bit < 8 * good.size(); ++bit) {
    bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    complaint(bad);  // refused, or read as another message
  }
}

BOOST_AUTO_TEST_CASE(frame_notifies_its_lending) {
  int left = 0, back = 0, gone = 0;
  {
    Message message = lent();
    message.lending = std::make_shared<Account>(left, back, gone);
    Frame frame(std::move(message));
    message = {};
    BOOST_TEST(left == 0);
    bytes_of(frame);
    BOOST_TEST(left > 0);
    frame.recall();
    BOOST_TEST(back == 1);
    BOOST_TEST(gone == 0);
  }
  BOOST_TEST(gone == 1);
}

BOOST_AUTO_TEST_CASE(lending_messages_survive) {
  LendingOffer offer{.segment = 3, .to = 1, .bytes = uint64_t{1} << 33};
  for (std::size_t i = 0; i < offer.home.size(); ++i) offer.home[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < offer.handle.size(); ++i) offer.handle[i] = static_cast<std::byte>(100 + i);
  for (const LendingMessage& said :
       {LendingMessage(offer), LendingMessage(LendingAnswer{.segment = 3, .to = 1, .accepted = true}),
        LendingMessage(LendingAnswer{.segment = 4, .to = 0, .accepted = false, .why = "no"}),
        LendingMessage(LendingReturn{{1, 2, uint64_t{1} << 40}})}) {
    const Message message = travelled(encode(said));
    BOOST_TEST((message.kind == MessageKind::lending));
    BOOST_TEST((decode_lending(message.payload) == said));
    for (std::size_t size = 0; size < message.payload.size(); ++size) {
      const std::string error = error_of(std::span(message.payload).first(size));
      const bool shorter = size >= 7 && (message.payload[0] != std::byte{1}) && error.empty();
      BOOST_TEST((shorter || contains(error, "bad lending message")), size << ": " << error);
    }
  }
}

BOOST_AUTO_TEST_CASE(lending_has_golden_bytes_both_ways) {
  const Message read = one_message(golden("lent.bin"));
  const LentPlace place{.segment = 2, .offset = 1536, .id = 7};
  BOOST_TEST((read.lent == std::vector<LentPlace>{place, {}}));
  Message again;
  again.kind = MessageKind::reply;
  again.call_id = 13;
  again.payload = numbers({0, 1});
  again.tensors = read.tensors;
  again.requires_grad = read.requires_grad;
  again.placements = read.placements;
  again.lent = read.lent;
  BOOST_TEST((bytes_of(Frame(again)) == golden("lent.bin")));

  LendingOffer offer{.segment = 2, .to = 1, .bytes = 1 << 25};
  for (std::size_t i = 0; i < offer.home.size(); ++i) offer.home[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < offer.handle.size(); ++i) offer.handle[i] = static_cast<std::byte>(100 + i);
  const auto both_ways = [](const std::string& name, const LendingMessage& said) {
    BOOST_TEST((bytes_of(Frame(encode(said))) == golden(name)));
    BOOST_TEST((decode_lending(one_message(golden(name)).payload) == said));
  };
  both_ways("lending_offer.bin", offer);
  both_ways("lending_answer.bin", LendingAnswer{.segment = 2, .to = 1, .accepted = false, .why = "no such device"});
  both_ways("lending_return.bin", LendingReturn{{7, uint64_t{1} << 40}});
}

BOOST_AUTO_TEST_CASE(invalid_lending_messages_are_refused) {
  BOOST_TEST(error_of({}) == "bad lending message: it is empty");
  Bytes bytes = encode(LendingOffer{}).payload;
  bytes[0] = std::byte{4};
  BOOST_TEST(error_of(bytes) == "bad lending message: unknown kind");
  bytes[0] = std::byte{1};
  bytes[5] = std::byte{0x80};
  BOOST_TEST(error_of(bytes) == "bad lending message: a device has a negative index");
  Bytes answer = encode(LendingAnswer{}).payload;
  answer[6] = std::byte{2};
  BOOST_TEST(error_of(answer) == "bad lending message: an answer is neither 0 nor 1");
  BOOST_TEST(encode(LendingAnswer{.why = std::string(100'000, 'x')}).payload.size() < kMinPayloadBytes);
}

BOOST_AUTO_TEST_SUITE_END()
