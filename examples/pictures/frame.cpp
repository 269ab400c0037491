// Draws one line per field of docs/wire.md: offset, bytes, meaning.
#include <tendril/rpc/wire/wire.h>
#include <tendril/tendril.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "pictures.h"
#include "svg.h"

using namespace tendril;

std::vector<std::uint8_t>& arrived() {
  static std::vector<std::uint8_t> bytes;
  return bytes;
}
std::vector<std::uint8_t> bytes_that_arrived() { return arrived(); }
Tensor doubled(const Tensor& x) { return x * 2; }

namespace {

/// Serialises and keeps the first received request that has a tensor.
struct Recorder : rpc::MessageHook {
  void before_send(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_receive(const rpc::WorkerInfo&, rpc::Message& request) override {
    if (request.tensors.empty() || !arrived().empty()) return;
    rpc::Frame frame(request);
    frame.acknowledge(request.acknowledged);
    if (frame.size() != request.frame_bytes)
      throw std::runtime_error("the frame differs in size from the received one");
    while (arrived().size() < frame.size()) {
      rpc::ConstBuffer buffer[1];
      frame.gather(arrived().size(), buffer);
      const auto* data = static_cast<const std::uint8_t*>(buffer[0].data);
      arrived().insert(arrived().end(), data, data + buffer[0].size);
    }
  }
  void before_reply(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_reply(const rpc::WorkerInfo&, rpc::Message&) override {}
};

struct Field {
  std::size_t size;
  std::string what;
  bool number = true;     // print it as a number, too
  std::string note = {};  // meaning of the number
};

struct Part {
  std::string name, color;
  std::vector<Field> fields;
};

std::uint64_t number_at(const std::vector<std::uint8_t>& bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = size; i-- > 0;) number = number << 8 | bytes.at(at + i);  // the lowest byte comes first
  return number;
}

}  // namespace

void record_frames(const std::shared_ptr<rpc::Agent>& agent) { agent->add_hook(std::make_shared<Recorder>()); }

std::string frame() {
  const Tensor x = tensor({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}).view({2, 3});
  rpc::rpc_sync<&doubled>("bob", {.timeout = std::chrono::seconds(0)}, x.t());
  const auto bytes = rpc::rpc_sync<&bytes_that_arrived>("bob");
  const std::size_t payload = number_at(bytes, 64, 8), descriptors = number_at(bytes, 84, 4);
  const std::size_t elements = number_at(bytes, 104 + 8, 8), first = 104 + descriptors + payload;
  const std::vector<Part> parts = {
      {"header",
       "#dbe9f6",
       {{4, "TDRL", false},
        {1, "wire version"},
        {1, "kind", true, ", a request"},
        {1, "flags"},
        {1, "depth"},
        {8, "call id"},
        {8, "function id", false},
        {8, "microseconds left", true, ", no deadline"},
        {8, "autograd context", true, ", none"},
        {8, "autograd message", true, ", none"},
        {8, "trace id"},
        {8, "span id"},
        {8, "bytes of payload"},
        {8, "bytes of tensors, with padding"},
        {4, "bytes of extension"},
        {4, "bytes of tensor descriptors"},
        {4, "tensors"},
        {4, "references"},
        {4, "frames received", false},
        {4, "CRC-32C of the 100 bytes before", false}}},
      {"tensor descriptor",
       "#fde3c4",
       {{1, "dtype", true, ", float32"},
        {2, "device at the receiver", true, ", the CPU"},
        {1, "dimensions"},
        {1, "flags"},
        {2, "device at the sender", true, ", the CPU"},
        {1, "zero"},
        {8, "bytes of elements"},
        {8, "size 0"},
        {8, "size 1"},
        {8, "stride 0"},
        {8, "stride 1"}}},
      {"payload", "#d9efd0", {{payload, "the arguments' archive", false}}},
      {"tensor",
       "#eadcf4",
       {{bytes.size() - first - elements, "padding to a multiple of 64", false},
        {elements, "elements as they lie: 1 2 3 4 5 6", false}}},
  };
  Svg svg;
  double y = 18;
  std::size_t at = 0;
  for (const Part& part : parts) {
    svg.text(6, y, part.name, "font-weight=\"bold\"");
    y += 6;
    for (const auto& [size, what, number, note] : part.fields) {
      if (size == 0) continue;
      std::string hex;
      const double top = y;
      for (std::size_t i = 0; i < size; ++i) {
        char text[8];
        std::snprintf(text, sizeof text, "%02x ", bytes.at(at + i));
        hex += text;
        if (i % 8 != 7 && i + 1 != size) continue;
        svg.box(40, y, 176, 14, part.color);
        svg.text(44, y + 11, hex);
        hex.clear();
        y += 14;
      }
      svg.text(8, top + 11, std::to_string(at));
      svg.text(224, top + 11, what + (number ? ": " + std::to_string(number_at(bytes, at, size)) + note : ""));
      at += size;
    }
    y += 18;
  }
  if (at != bytes.size()) throw std::runtime_error("there are bytes after the last field");
  return svg.picture(500, y - 10);
}
