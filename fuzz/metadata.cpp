// The descriptors of a frame, behind a header that fits them: its checksum would keep a fuzzer from what comes after.
#include <algorithm>
#include <array>

#include "fuzz/input.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/rpc/wire/wire_layout.h"

using namespace tendril::rpc;

namespace {

/// docs/wire.md, "Header".
Bytes frame_of(tendril::fuzz::Input& input) {
  const auto kind = input.number<uint8_t>(), flags = input.number<uint8_t>(), depth = input.number<uint8_t>();
  const uint32_t tensors = input.number<uint8_t>(), references = input.number<uint8_t>();
  const uint32_t extension = input.number<uint8_t>(), descriptors = input.number<uint16_t>();
  const uint64_t payload = input.number<uint8_t>(), tensor_bytes = input.number<uint16_t>();
  Bytes frame(kFrameHeaderBytes);
  std::byte* to = put(frame.data(), kFrameMagic);
  to = put(put(put(put(to, uint8_t{0}), kind), flags), depth);
  for (uint64_t number = 1; number <= 7; ++number) to = put(to, number);
  to = put(put(to, payload), tensor_bytes);
  to = put(put(put(put(put(to, extension), descriptors), tensors), references), uint32_t{0});
  put(to, crc32c(std::span(frame).first(kFrameHeaderBytes - 4)));
  const auto rest = input.rest();
  frame.insert(frame.end(), rest.begin(), rest.end());
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  const Bytes frame = frame_of(input);
  FrameReader reader(Limits{.max_extension_bytes = 1 << 12,
                            .max_payload_bytes = 1 << 16,
                            .max_tensor_bytes = 1 << 20,
                            .max_tensors = 64,
                            .max_references = 64});
  try {
    Message message;
    for (std::size_t at = 0; at < frame.size();) {
      const MutableBuffer buffer = reader.prepare().front();
      const std::size_t count = std::min(buffer.size, frame.size() - at);
      std::memcpy(buffer.data, frame.data() + at, count);
      reader.commit(count);
      at += count;
      while (reader.next(message)) {
      }
    }
  } catch (const MessageError&) {
  }
  return 0;
}
