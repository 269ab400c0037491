#pragma once

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "tendril/rpc/wire/wire.h"

/// Helpers for tests of the wire format.
namespace tendril::rpc::testing {

inline Bytes bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

/// Reads a file in tests/rpc/data.
inline Bytes golden(const std::string& name) {
  std::ifstream file(std::string(TENDRIL_TEST_DATA) + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + name + " in " TENDRIL_TEST_DATA);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return bytes_of(text);
}

/// All bytes of a frame, gathered `buffers_at_once` buffers at a time.
inline Bytes bytes_of(const Frame& frame, std::size_t buffers_at_once = 64) {
  Bytes all;
  std::vector<ConstBuffer> buffers(buffers_at_once);
  while (all.size() < frame.size()) {
    const std::size_t count = frame.gather(all.size(), buffers);
    if (count == 0) throw std::runtime_error("gather: nothing left before the end");
    for (std::size_t i = 0; i < count; ++i) {
      const auto* data = static_cast<const std::byte*>(buffers[i].data);
      all.insert(all.end(), data, data + buffers[i].size);
    }
  }
  return all;
}

/// Feeds bytes to a reader, at most `step` at a time, and returns the messages that they contain.
inline std::vector<Message> read_all(FrameReader& reader, std::span<const std::byte> bytes,
                                     std::size_t step = SIZE_MAX) {
  std::vector<Message> messages;
  Message message;
  for (;;) {
    while (reader.next(message)) messages.push_back(std::move(message));
    if (bytes.empty()) return messages;
    std::size_t budget = std::min(step, bytes.size());
    std::size_t put = 0;
    for (const MutableBuffer& buffer : reader.prepare()) {
      const std::size_t count = std::min(buffer.size, budget - put);
      std::memcpy(buffer.data, bytes.data() + put, count);
      put += count;
    }
    reader.commit(put);
    bytes = bytes.subspan(put);
  }
}

inline bool same_elements(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.to_vector<double>() == b.to_vector<double>();
}

}  // namespace tendril::rpc::testing
