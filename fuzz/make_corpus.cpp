// Writes the seed inputs of all targets from real messages: fuzz_make_corpus fuzz/corpus. What fuzzers found lies
// beside them and stays.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/group/rendezvous.h"
#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/control.h"
#include "tendril/rpc/wire/hello.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/tensor/raw.h"

using namespace tendril;
using namespace tendril::rpc;

namespace {

std::filesystem::path base;

void write(const std::string& target, const std::string& name, const Bytes& bytes) {
  std::filesystem::create_directories(base / target);
  std::ofstream file(base / target / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + (base / target / name).string());
}

template <class T>
void append(Bytes& to, T value) {
  to.resize(to.size() + sizeof value);
  put(to.data() + to.size() - sizeof value, value);
}
void append_bytes(Bytes& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }
void append_part(Bytes& to, std::span<const std::byte> bytes) {
  append(to, static_cast<uint16_t>(bytes.size()));
  append_bytes(to, bytes);
}

Hello hello() {
  Hello hello;
  hello.worker = {"obs1", 2};
  hello.world_size = 3;
  hello.group = "cartpole";
  hello.incarnation = 5;
  return hello;
}

void hellos() {
  write("hello", "plain", encode(hello()));
  Hello refusal = hello();
  refusal.refusal = "the name is taken";
  write("hello", "refusal", encode(refusal));
  Hello devices = hello();
  devices.devices = {.cuda_devices = 2, .map = {{0, 1}, {kCPU, Device{DeviceType::cuda, 0}}}};
  devices.features = {{64, {}}, {65, Bytes(3)}};
  write("hello", "devices", encode(devices));
}

Message request() {
  Message message;
  message.call_id = 7;
  message.function = 3;
  message.timeout_us = 60'000'000;
  message.payload = Bytes(24, std::byte{1});
  return message;
}

Bytes frame_bytes(Message message) {
  const Frame frame(std::move(message));
  std::array<ConstBuffer, 64> buffers;
  Bytes all;
  while (all.size() < frame.size()) {
    const std::size_t count = frame.gather(all.size(), buffers);
    for (std::size_t i = 0; i < count; ++i)
      append_bytes(all, std::span(static_cast<const std::byte*>(buffers[i].data), buffers[i].size));
  }
  return all;
}

/// The same for the target that makes the header itself.
Bytes metadata_of(const Bytes& frame) {
  Bytes input;
  for (const std::size_t at : {5, 6, 7, 88, 92, 80}) append(input, get<uint8_t>(&frame[at]));
  append(input, get<uint16_t>(&frame[84]));
  append(input, get<uint8_t>(&frame[64]));
  append(input, get<uint16_t>(&frame[72]));
  append_bytes(input, std::span(frame).subspan(kFrameHeaderBytes));
  return input;
}

void frames() {
  Message tensors = request();
  tensors.kind = MessageKind::reply;
  tensors.tensors = {raw::zeros({2, 3}), raw::zeros({}, DType::int64), raw::zeros({0, 5}, DType::uint8),
                     raw::zeros({3}, DType::boolean)};
  Message references = request();
  references.flags = kCreatesReference;
  references.extension = Bytes(5, std::byte{9});
  references.forks = {{.owner = 1, .owner_incarnation = 2}, {.kind = ForkDescriptor::create, .owner = 1}};
  const std::pair<const char*, Bytes> all[] = {{"request", frame_bytes(request())},
                                               {"tensors", frame_bytes(std::move(tensors))},
                                               {"references", frame_bytes(std::move(references))}};
  for (const auto& [name, bytes] : all) {
    Bytes twice(1, std::byte{99});
    append_bytes(twice, bytes);
    append_bytes(twice, bytes);
    write("frame", name, twice);
    write("metadata", name, metadata_of(bytes));
  }
}

/// A frame in parts, with another between them.
void frames_in_parts() {
  Message large = request();
  large.tensors = {raw::zeros({20})};
  Frame frame(large);
  frame.announce_parts();
  const Bytes whole = frame_bytes(std::move(large)), between = frame_bytes(request());
  Bytes input(1, std::byte{99});
  std::array<ConstBuffer, 1> header;
  frame.gather(0, header);
  append_bytes(input, std::span(static_cast<const std::byte*>(header[0].data), header[0].size));
  for (std::size_t at = kFrameHeaderBytes; at < whole.size();) {
    const std::size_t part = std::min<std::size_t>(50, whole.size() - at);
    append_bytes(input, part_header(part, 0));
    append_bytes(input, std::span(whole).subspan(at, part));
    append_bytes(input, between);
    at += part;
  }
  write("frame", "parts", input);
  // For the target that makes the headers itself: what, length, bytes.
  Bytes parts(1, std::byte{30});
  for (const auto& [what, length] : {std::pair(1, 100), {0, 40}, {2, 10}, {8, 59}, {3, 0}, {0, 1}}) {
    append(parts, static_cast<uint8_t>(what));
    append(parts, static_cast<uint8_t>(length));
    if (what != 1) append_bytes(parts, Bytes(static_cast<std::size_t>(length), std::byte{5}));
  }
  write("parts", "with_others_between", parts);
}

template <class T>
void value(int reader, const T& what) {
  Message message;
  OutputArchive out(message);
  out << what;
  Bytes input(1, static_cast<std::byte>(reader));
  append_bytes(input, message.payload);
  write("archive", "type" + std::to_string(reader), input);
}

/// In the order of the readers in archive.cpp.
void archives() {
  using Strings = std::vector<std::string>;
  value(0, std::tuple(int8_t{-3}, true, uint16_t{5}, 0.5, std::string("hello")));
  value(1, std::vector<int64_t>{1, -1});
  value(2, std::vector<bool>{true, false, true});
  value(3, std::vector<Strings>{{"a", "bc"}, {}, {""}});
  value(4, std::map<std::string, std::vector<float>>{{"w", {1, 2}}, {"b", {}}});
  value(5, std::map<int32_t, std::optional<std::string>>{{1, "x"}, {2, std::nullopt}});
  value(6, std::set<std::string>{"a", "b"});
  value(7, std::vector<std::vector<std::array<uint8_t, 3>>>{{{1, 2, 3}}, {}});
  value(8, std::variant<int32_t, std::string, std::vector<double>>(std::vector<double>{1, 2}));
  value(9, std::optional(std::tuple(true, std::chrono::microseconds(5))));
  value(11,
        std::tuple(int32_t{1}, uint64_t{2}, std::tuple(int32_t{2}, uint64_t{0}), std::tuple(int32_t{3}, uint64_t{0})));
  value(12, std::vector<Tensor>{raw::zeros({2}), Tensor(), raw::zeros({2})});
  value(13, std::pair(std::string("t"), raw::zeros({2})));
}

void controls() {
  ControlChannel channel;
  const Clock::time_point now{};
  std::vector<ControlRecord> records;
  for (int kind = 1; kind <= 9; ++kind)
    records.push_back(
        {.kind = static_cast<ControlRecord::Kind>(kind), .call_id = 3, .rref = {1, 2, 3}, .fork = {4, 5, 6}});
  Bytes input;
  append_part(input, channel.send(records, now));
  append_part(input, channel.send({records[0]}, now));
  for (const Bytes& again : channel.on_timer(now + std::chrono::seconds(1))) append_part(input, again);
  write("control", "records", input);
}

void rendezvous() {
  RendezvousMessage join{.kind = RendezvousKind::join, .timeout_ms = 1000};
  join.parts = {"an introduction"};
  RendezvousMessage contribute{.kind = RendezvousKind::contribute, .text = "joined", .epoch = 1};
  contribute.parts = {"something"};
  Bytes good, again, bad;
  const auto say = [](Bytes& input, int from, char admit, const RendezvousMessage& message) {
    append(input, static_cast<uint8_t>(2 * from));
    append(input, static_cast<uint8_t>(admit));
    append_part(input, encode(message));
  };
  say(good, 0, 0, join);
  say(good, 1, 'b', join);
  say(good, 2, 'c', join);
  for (int rank = 0; rank < 3; ++rank) say(good, rank, 0, contribute);
  say(good, 1, 0, {.kind = RendezvousKind::leave});
  append(good, uint8_t{3});
  append(good, uint8_t{0});
  say(good, 2, 0, contribute);
  write("rendezvous", "meeting", good);
  for (int rank = 0; rank < 3; ++rank) say(again, rank, rank == 0 ? char{0} : static_cast<char>('a' + rank), join);
  for (int rank = 0; rank < 3; ++rank) say(again, rank, 0, contribute);
  append(again, uint8_t{5});
  append(again, uint8_t{0});
  contribute.text = "barrier";
  contribute.epoch = 2;
  contribute.ranks = {0, 1};
  for (int rank = 0; rank < 2; ++rank) say(again, rank, 0, contribute);
  say(again, 2, 'c', join);
  contribute.epoch = 3;
  contribute.attendance = Attendance::unchanged;
  contribute.ranks = {1, 2};
  say(again, 1, 0, contribute);
  say(again, 1, 0, {.kind = RendezvousKind::fail, .text = "no more"});
  contribute.attendance = Attendance::alive;
  for (const int rank : {0, 2}) say(again, rank, 0, contribute);
  write("rendezvous", "members", again);
  say(bad, 1, 'a', join);
  say(bad, 1, 'b', join);
  say(bad, 1, 0, join);
  say(bad, 0, 0, {.kind = RendezvousKind::fail, .text = "no more"});
  say(bad, 2, 'c', join);
  write("rendezvous", "failure", bad);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
  base = argv[1];
  hellos();
  frames();
  frames_in_parts();
  archives();
  controls();
  rendezvous();
}
