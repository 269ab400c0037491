// A connection's bytes after the hellos, in pieces of the size that the first byte says.
#include <algorithm>

#include "fuzz/input.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/wire.h"

using namespace tendril::rpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  const std::size_t step = input.number<uint8_t>() + std::size_t{1};
  FrameReader reader(Limits{.max_extension_bytes = 1 << 12,
                            .max_payload_bytes = 1 << 16,
                            .max_tensor_bytes = 1 << 16,
                            .max_tensors = 64,
                            .max_references = 64});
  try {
    Message message;
    while (!input.empty()) {
      std::span<const std::byte> piece = input.bytes(step);
      std::size_t put = 0;
      for (const MutableBuffer& buffer : reader.prepare()) {
        const std::size_t count = std::min(buffer.size, piece.size() - put);
        if (count > 0) std::memcpy(buffer.data, piece.data() + put, count);
        put += count;
      }
      reader.commit(put);
      while (reader.next(message)) {
        const Frame again(std::move(message));  // what was read can be written
        tendril::fuzz::require(again.size() >= kFrameHeaderBytes);
      }
    }
  } catch (const MessageError&) {
  }
  return 0;
}
