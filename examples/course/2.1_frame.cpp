// Task 2.1: the header of a message. frame.cpp, Frame::Frame; docs/wire.md has the layout.
#include <tendril/rpc/wire/wire.h>
#include <tendril/tensor/creation.h>

#include <cstring>
#include <string>
#include <vector>

#include "course.h"

using namespace tendril;
using namespace tendril::rpc;
using course::check;
using course::same;

namespace {

Message message() {
  Message message;
  message.kind = MessageKind::request;
  message.depth = 3;
  message.call_id = 0x0102030405060708;
  message.function = 0x1112131415161718;
  message.timeout_us = 5000;
  message.autograd_context = 21;
  message.autograd_message = 22;
  message.trace_id = 23;
  message.span_id = 24;
  message.extension = Bytes(7, std::byte{1});
  message.payload = Bytes(100, std::byte{2});
  message.tensors = {ones({2, 3})};
  return message;
}

std::vector<unsigned char> bytes_of(const Frame& frame) {
  std::vector<unsigned char> bytes;
  while (bytes.size() < frame.size()) {
    ConstBuffer buffers[8];
    const std::size_t count = frame.gather(bytes.size(), buffers);
    for (std::size_t i = 0; i < count; ++i) {
      const auto* data = static_cast<const unsigned char*>(buffers[i].data);
      bytes.insert(bytes.end(), data, data + buffers[i].size);
    }
  }
  return bytes;
}

}  // namespace

int main() {
  const auto has = [](const char* what, std::size_t offset, std::size_t size, std::uint64_t expected) {
    check(std::string(what) + ", " + std::to_string(size) + " bytes at " + std::to_string(offset), [&] {
      const std::vector<unsigned char> bytes = bytes_of(Frame(message()));
      std::uint64_t got = 0;
      for (std::size_t i = size; i-- > 0;) got = got << 8 | bytes.at(offset + i);  // little-endian
      return same(got, expected);
    });
  };
  check("the frame begins with TDRL", [] {
    const std::vector<unsigned char> bytes = bytes_of(Frame(message()));
    return same(std::string(bytes.begin(), bytes.begin() + 4), std::string("TDRL"));
  });
  has("version", 4, 1, 0);
  has("kind", 5, 1, 1);
  has("depth", 7, 1, 3);
  has("call id", 8, 8, 0x0102030405060708);
  has("function", 16, 8, 0x1112131415161718);
  has("time left", 24, 8, 5000);
  has("autograd context", 32, 8, 21);
  has("autograd message", 40, 8, 22);
  has("trace", 48, 8, 23);
  has("span", 56, 8, 24);
  has("bytes of payload", 64, 8, 100);
  has("bytes of extension", 80, 4, 7);
  has("number of tensors", 88, 4, 1);
  has("number of references", 92, 4, 0);
  check("a FrameReader reads it back", []() -> std::string {
    const std::vector<unsigned char> bytes = bytes_of(Frame(message()));
    FrameReader reader;
    Message read;
    for (std::size_t at = 0; at < bytes.size();) {
      for (const MutableBuffer& to : reader.prepare()) {
        const std::size_t size = std::min(to.size, bytes.size() - at);
        std::memcpy(to.data, bytes.data() + at, size);
        reader.commit(size);
        at += size;
        break;
      }
      if (reader.next(read)) break;
    }
    if (read.call_id != message().call_id || read.payload.size() != 100)
      return "the reader returned a different message";
    return read.tensors.size() == 1 ? same(read.tensors[0].to_vector<float>().size(), std::size_t{6}) : "no tensor";
  });
  return course::result();
}
