// Tests the order in which frames' bytes leave, and that the reader at the other end restores the same frames.
#include "tendril/rpc/transport/outgoing.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <vector>

#include "tendril/tensor/raw.h"
#include "tests/rpc/messages.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(outgoing)

using namespace tendril;
using namespace tendril::rpc;
using namespace tendril::rpc::testing;
using tendril::testing::seeds;

namespace {

constexpr auto kLarge = static_cast<int64_t>(kMaxPartBytes);

Message with_tensor(uint64_t id, int64_t bytes, MessageKind kind = MessageKind::request) {
  Message message;
  message.kind = kind;
  message.call_id = id;
  message.payload = bytes_of("some");
  if (bytes > 0) message.tensors = {raw::full({bytes}, static_cast<double>(id % 100), kUInt8)};
  return message;
}

void push(Outgoing& out, Message message) {
  FrameList one;
  one.emplace_back(std::move(message));
  out.push(one);
}

/// Writes at most `most` bytes, like a socket, with `buffers` buffers; returns the bytes.
Bytes write(Outgoing& out, std::size_t most, FrameList& done, std::size_t buffers = 64) {
  out.make_part([] { return 7u; });
  std::vector<ConstBuffer> gathered(buffers);
  gathered.resize(out.gather(gathered));
  Bytes bytes;
  for (const ConstBuffer& buffer : gathered) {
    const std::size_t count = std::min(buffer.size, most - bytes.size());
    const auto* const data = static_cast<const std::byte*>(buffer.data);
    bytes.insert(bytes.end(), data, data + count);
  }
  out.written(bytes.size(), done);
  return bytes;
}

Bytes write_all(Outgoing& out, FrameList& done) {
  Bytes all;
  while (!out.empty()) {
    const Bytes bytes = write(out, SIZE_MAX, done);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

std::vector<uint64_t> ids(const FrameList& frames) {
  std::vector<uint64_t> ids;
  for (const Frame& frame : frames) ids.push_back(frame.call_id());
  return ids;
}
std::vector<uint64_t> ids(const std::vector<Message>& messages) {
  std::vector<uint64_t> ids;
  for (const Message& message : messages) ids.push_back(message.call_id);
  return ids;
}

bool is_whole(const Message& message, int64_t bytes) {
  if (bytes == 0) return message.tensors.empty();
  if (message.tensors.size() != 1 || message.tensors[0].numel() != bytes) return false;
  const auto* const data = static_cast<const uint8_t*>(message.tensors[0].raw_data());
  return std::all_of(data, data + bytes, [&](uint8_t byte) { return byte == message.call_id % 100; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(small_frame_waits_for_one_part) {
  Outgoing out;
  FrameList done;
  push(out, with_tensor(1, 10 * kLarge));
  Bytes bytes = write(out, 1000, done);  // the large frame has begun
  push(out, with_tensor(2, 10));
  push(out, with_tensor(3, 0));
  while (done.size() < 2) {
    const Bytes more = write(out, 1000, done);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  BOOST_TEST(ids(done) == (std::vector<uint64_t>{2, 3}), boost::test_tools::per_element());
  BOOST_TEST(bytes.size() < kMaxPartBytes + 2000);
  const Bytes rest = write_all(out, done);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  BOOST_TEST(ids(done) == (std::vector<uint64_t>{2, 3, 1}), boost::test_tools::per_element());

  FrameReader reader;
  const std::vector<Message> read = read_all(reader, bytes);
  BOOST_TEST(ids(read) == (std::vector<uint64_t>{2, 3, 1}), boost::test_tools::per_element());
  BOOST_TEST(is_whole(read[2], 10 * kLarge));
  BOOST_TEST(read[2].acknowledged == 7u);
  BOOST_TEST(reader.idle());
}

BOOST_AUTO_TEST_CASE(only_large_requests_leave_in_parts) {
  BOOST_TEST(Frame(with_tensor(1, kLarge)).goes_in_parts());
  BOOST_TEST(Frame(with_tensor(1, kLarge, MessageKind::reply)).goes_in_parts());
  BOOST_TEST(!Frame(with_tensor(1, kLarge / 2)).goes_in_parts());
  BOOST_TEST(!Frame(with_tensor(1, kLarge, MessageKind::group)).goes_in_parts());
}

BOOST_AUTO_TEST_CASE(large_frames_leave_one_by_one) {
  Outgoing out;
  FrameList done;
  push(out, with_tensor(1, 3 * kLarge));
  push(out, with_tensor(2, kLarge));
  FrameReader reader;
  BOOST_TEST(ids(read_all(reader, write_all(out, done))) == (std::vector<uint64_t>{1, 2}),
             boost::test_tools::per_element());
}

/// TLS needs this: a record that the socket has not fully taken must be written again with the same bytes.
BOOST_AUTO_TEST_CASE(unwritten_bytes_keep_their_order) {
  for (const std::size_t begun : {1u, 150u, 5000u}) {
    Outgoing out;
    FrameList done;
    push(out, with_tensor(1, 2 * kLarge));
    write(out, begun, done);
    const auto next = [&] {
      out.make_part([] { return 7u; });
      std::vector<ConstBuffer> buffers(64);
      buffers.resize(out.gather(buffers));
      Bytes bytes;
      for (const ConstBuffer& buffer : buffers) {
        const auto* const data = static_cast<const std::byte*>(buffer.data);
        bytes.insert(bytes.end(), data, data + buffer.size);
      }
      return bytes;
    };
    const Bytes before = next();
    push(out, with_tensor(2, 0));
    const Bytes after = next();
    BOOST_TEST(after.size() > before.size());
    BOOST_TEST(std::equal(before.begin(), before.end(), after.begin()));
  }
}

/// Uses frames of all sizes, sockets that take any number of bytes, and connections that break anywhere.
BOOST_AUTO_TEST_CASE(each_frame_arrives_once_despite_losses) {
  const std::vector<int64_t> sizes{0, 10, 0, 5000, kLarge, 0, 2 * kLarge + 77, 300, kLarge - 1000};
  for (const uint64_t seed : seeds({}, 30)) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto chance = [&](unsigned in) { return random() % in == 0; };
    const auto size_of_frame = [&](uint64_t id) { return sizes[(id * seed) % sizes.size()]; };
    Outgoing out;
    SentFrames sent;
    ReceivedFrames received;
    FrameReader reader;
    FrameList queue;
    constexpr uint64_t kFrames = 60;
    std::vector<int> come(kFrames + 1);
    uint64_t next = 1, seen = 0;
    while (seen < kFrames) {
      if (next <= kFrames && chance(2)) {
        queue.emplace_back(with_tensor(next, size_of_frame(next)));
        ++next;
      }
      if (chance(2)) {
        sent.taken(queue.size());
        out.push(queue);
      }
      FrameList done;
      const Bytes bytes = write(out, 1 + random() % (chance(3) ? 300 : 400'000), done, 1 + random() % 20);
      sent.written(done);
      const std::size_t arrive = chance(40) ? bytes.size() / 2 : bytes.size();
      for (const Message& message : read_all(reader, std::span(bytes).first(arrive), 1 + random() % 100'000)) {
        BOOST_REQUIRE(is_whole(message, size_of_frame(message.call_id)));
        ++come[message.call_id];
        ++seen;
        if (received.received(message.frame_bytes)) sent.acknowledged(received.say());
      }
      if (arrive < bytes.size() || chance(50)) {  // the connection is lost and replaced
        reader = FrameReader();
        out.give_back(queue);
        sent.stopped();
        sent.resumed(received.count(), queue);
      }
    }
    BOOST_TEST(std::count(come.begin() + 1, come.end(), 1) == static_cast<std::ptrdiff_t>(kFrames));
  }
}

BOOST_AUTO_TEST_SUITE_END()
