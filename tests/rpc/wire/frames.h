#pragma once

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/wire/wire.h"
#include "tendril/tensor/raw.h"
#include "tests/contains.h"
#include "tests/rpc/messages.h"

/// Valid and invalid messages and frames, for the tests in this folder.
namespace wire_frames {

using namespace tendril;
using namespace tendril::rpc;
using tendril::test::contains;
using namespace tendril::rpc::testing;

inline Message one_message(const Bytes& bytes, const Limits& limits = {}) {
  FrameReader reader(limits);
  std::vector<Message> messages = read_all(reader, bytes);
  BOOST_REQUIRE_EQUAL(messages.size(), 1u);
  BOOST_TEST(reader.idle());
  return std::move(messages[0]);
}

inline Message travelled(Message message) { return one_message(bytes_of(Frame(std::move(message)))); }

inline Tensor travelled(const Tensor& tensor) {
  Message message;
  message.tensors.push_back(tensor);
  return travelled(std::move(message)).tensors.at(0);
}

inline Bytes numbers(std::initializer_list<uint32_t> values) {
  Bytes bytes(values.size() * 4);
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

/// Changes bytes of a frame's header, and updates its checksum.
template <class T>
Bytes patched(Bytes frame, std::size_t offset, T value) {
  std::memcpy(frame.data() + offset, &value, sizeof value);
  const uint32_t crc = crc32c(std::span(frame).first(kFrameHeaderBytes - 4));
  std::memcpy(frame.data() + kFrameHeaderBytes - 4, &crc, 4);
  return frame;
}

inline std::string complaint(const Bytes& bytes, const Limits& limits = {}) {
  FrameReader reader(limits);
  try {
    read_all(reader, bytes);
  } catch (const MessageError& error) {
    return error.what();
  }
  return "";
}

inline Message everything() {
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

/// Returns the frame in parts of these sizes.
inline Bytes in_parts(Message message, std::vector<std::size_t> parts) {
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

inline Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline Message with_bytes(int64_t tensor_bytes, std::size_t payload_bytes = 0) {
  Message message;
  message.payload.resize(payload_bytes);
  if (tensor_bytes > 0) message.tensors = {raw::zeros({tensor_bytes}, kUInt8)};
  return message;
}

}  // namespace wire_frames
