// A frame in parts with others between them, of lengths that the input says: headers have checksums, which a fuzzer
// does not find.
#include <algorithm>
#include <array>
#include <vector>

#include "fuzz/input.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/wire.h"

using namespace tendril::rpc;

namespace {

void append(Bytes& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

Bytes header_of(Message message, bool in_parts) {
  Frame frame(std::move(message));
  if (in_parts) frame.announce_parts();
  std::array<ConstBuffer, 1> first;
  frame.gather(0, first);
  const auto* const at = static_cast<const std::byte*>(first[0].data);
  return {at, at + first[0].size};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  const std::size_t step = input.number<uint8_t>() + std::size_t{1};
  Bytes stream;
  while (!input.empty()) {
    const auto what = input.number<uint8_t>();
    const std::size_t length = input.number<uint8_t>();
    if (what % 4 == 0) {
      append(stream, part_header(what % 8 == 0 ? length : length << 56, what));
      append(stream, input.bytes(length));
    } else {
      Message message;
      message.call_id = what;
      message.payload.resize(length);
      append(stream, header_of(std::move(message), what % 4 == 1));
      if (what % 4 != 1) append(stream, input.bytes(length));
    }
  }
  FrameReader reader(Limits{.max_payload_bytes = 1 << 16, .max_tensor_bytes = 1 << 16});
  std::span<const std::byte> left(stream);
  try {
    Message message;
    while (!left.empty()) {
      std::size_t put = 0;
      for (const MutableBuffer& buffer : reader.prepare()) {
        const std::size_t count = std::min({buffer.size, left.size() - put, step - put});
        if (count > 0) std::memcpy(buffer.data, left.data() + put, count);
        put += count;
      }
      tendril::fuzz::require(put > 0);
      reader.commit(put);
      left = left.subspan(put);
      while (reader.next(message))
        tendril::fuzz::require(message.frame_bytes == kFrameHeaderBytes + message.payload.size());
    }
  } catch (const MessageError&) {
  }
  return 0;
}
