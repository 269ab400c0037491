#include "tendril/rpc/wire/lending_message.h"

#include <algorithm>
#include <cstring>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc {

namespace {

enum Kind : uint8_t { kOffer = 1, kAnswer = 2, kReturn = 3 };

constexpr std::size_t kOfferBytes = 1 + 4 + 1 + sizeof(cuda::DeviceId) + 8 + sizeof(cuda::IpcHandle);
constexpr std::size_t kLendingAnswerBytes = 1 + 4 + 1 + 1;
constexpr std::size_t kMaxWhy = 512;

std::byte* put_all(std::byte* to, std::span<const std::byte> bytes) {
  return std::copy(bytes.begin(), bytes.end(), to);
}

Bytes payload_of(const LendingOffer& offer) {
  Bytes bytes(kOfferBytes);
  std::byte* at = put<uint8_t>(bytes.data(), kOffer);
  at = put_all(put(put(at, offer.segment), offer.to), offer.home);
  put_all(put(at, offer.bytes), offer.handle);
  return bytes;
}

Bytes payload_of(const LendingAnswer& answer) {
  const std::size_t text = std::min(answer.why.size(), kMaxWhy);
  Bytes bytes(kLendingAnswerBytes + text);
  std::byte* at = put<uint8_t>(bytes.data(), kAnswer);
  at = put<uint8_t>(put(put(at, answer.segment), answer.to), answer.accepted ? 1 : 0);
  if (text > 0) std::memcpy(at, answer.why.data(), text);
  return bytes;
}

Bytes payload_of(const LendingReturn& given_back) {
  Bytes bytes(1 + 8 * given_back.ids.size());
  std::byte* at = put<uint8_t>(bytes.data(), kReturn);
  for (const uint64_t id : given_back.ids) at = put(at, id);
  return bytes;
}

void require(bool good, const char* what) { TENDRIL_CHECK_AS(MessageError, good, "bad lending message: ", what); }

int8_t read_device(const std::byte* at) {
  const auto index = get<int8_t>(at);
  require(index >= 0, "a device has a negative index");
  return index;
}

LendingOffer read_offer(std::span<const std::byte> bytes) {
  require(bytes.size() == kOfferBytes, "an offer has the wrong length");
  LendingOffer offer{.segment = get<uint32_t>(&bytes[1]), .to = read_device(&bytes[5])};
  std::memcpy(offer.home.data(), &bytes[6], sizeof offer.home);
  offer.bytes = get<uint64_t>(&bytes[6 + sizeof offer.home]);
  std::memcpy(offer.handle.data(), &bytes[6 + sizeof offer.home + 8], sizeof offer.handle);
  return offer;
}

LendingAnswer read_answer(std::span<const std::byte> bytes) {
  require(bytes.size() >= kLendingAnswerBytes && bytes.size() <= kLendingAnswerBytes + kMaxWhy,
          "an answer has the wrong length");
  require(bytes[6] <= std::byte{1}, "an answer is neither 0 nor 1");
  LendingAnswer answer{.segment = get<uint32_t>(&bytes[1]), .to = read_device(&bytes[5])};
  answer.accepted = bytes[6] == std::byte{1};
  answer.why.assign(reinterpret_cast<const char*>(bytes.data()) + kLendingAnswerBytes,
                    bytes.size() - kLendingAnswerBytes);
  return answer;
}

LendingReturn read_return(std::span<const std::byte> bytes) {
  require(bytes.size() > 1 && bytes.size() % 8 == 1, "a return has the wrong length");
  LendingReturn given_back;
  for (std::size_t at = 1; at < bytes.size(); at += 8) given_back.ids.push_back(get<uint64_t>(&bytes[at]));
  return given_back;
}

}  // namespace

Message encode(const LendingMessage& said) {
  Message message;
  message.kind = MessageKind::lending;
  message.payload = std::visit([](const auto& one) { return payload_of(one); }, said);
  return message;
}

LendingMessage decode_lending(std::span<const std::byte> payload) {
  require(!payload.empty(), "it is empty");
  switch (get<uint8_t>(payload.data())) {
    case kOffer:
      return read_offer(payload);
    case kAnswer:
      return read_answer(payload);
    case kReturn:
      return read_return(payload);
    default:
      require(false, "unknown kind");
      return {};
  }
}

}  // namespace tendril::rpc
