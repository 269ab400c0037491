// Reads frames. Every number comes from the peer: each is checked before use, sizes before memory is allocated, and all
// checks stay in release builds.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/device_memory.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/rpc/wire/wire_layout.h"
#include "tendril/rpc/wire/wire_tensor.h"
#include "tendril/tensor/raw.h"

namespace tendril::rpc {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  tendril::detail::raise<MessageError>("bad frame: ", parts...);
}

void check_limit(const char* what, uint64_t got, uint64_t limit) {
  if (got > limit) refuse(got, " ", what, " announced, the limit is ", limit);
}

/// Memory for metadata and payload grows in steps of this size as bytes arrive: merely announcing them costs nothing.
constexpr std::size_t kMemoryStep = 1 << 20;

struct TensorPlan {
  Dims sizes;
  DenseLayout layout;
  DType dtype;
  bool requires_grad;
  Placement placement;
  LentPlace lent;
  std::size_t bytes;  // size of its elements
  std::size_t frame_bytes() const noexcept { return lent.id == 0 ? bytes : 0; }
};

/// Reads the place of a lent tensor. The session, which knows the segment, checks whether the place is within it.
LentPlace read_place(const std::byte* at, const TensorPlan& plan, std::size_t index) {
  const LentPlace place{.segment = get<uint32_t>(at), .offset = get<uint64_t>(at + 8), .id = get<uint64_t>(at + 16)};
  if (get<uint32_t>(at + 4) != 0 || place.id == 0) refuse("the place of tensor ", index, " is malformed");
  // Bool elements are checked only when they arrive in a frame.
  if (plan.dtype == kBool || plan.bytes == 0 || plan.placement.to.is_cpu()) {
    refuse("tensor ", index, " is lent, but is empty, of dtype bool or for the CPU");
  }
  return place;
}

Device read_device(const std::byte* at, std::size_t index) {
  const auto type = get<uint8_t>(at);
  const auto number = get<int8_t>(at + 1);
  if (type > 1 || number < 0 || (type == 0 && number != 0)) {
    refuse("tensor ", index, " names the unknown device ", int{type}, ':', int{number});
  }
  return {static_cast<DeviceType>(type), number};
}

/// Reads one descriptor from the `left` bytes at `at`, and advances past it. `budget` is the rest of max_tensor_bytes.
TensorPlan read_tensor(const std::byte*& at, std::size_t& left, uint64_t& budget, std::size_t index) {
  if (left < tensor_descriptor_bytes(0)) refuse("the descriptor of tensor ", index, " is cut off");
  const auto dtype = get<uint8_t>(at), rank = get<uint8_t>(at + 3), flags = get<uint8_t>(at + 4);
  if (dtype >= kNumDTypes) refuse("tensor ", index, " has the unknown dtype ", int{dtype});
  if (rank > Dims::kMaxDims) refuse("tensor ", index, " has ", int{rank}, " dimensions, at most ", Dims::kMaxDims);
  if ((flags & ~(kTensorRequiresGrad | kTensorLent)) != 0 || at[7] != std::byte{0}) {
    refuse("tensor ", index, " has unknown flags");
  }
  const bool lent = (flags & kTensorLent) != 0;
  const std::size_t descriptor = tensor_descriptor_bytes(rank) + (lent ? kLentPlaceBytes : 0);
  if (left < descriptor) refuse("the descriptor of tensor ", index, " is cut off");

  TensorPlan plan;
  plan.dtype = static_cast<DType>(dtype);
  plan.requires_grad = (flags & kTensorRequiresGrad) != 0;
  plan.placement = {.from = read_device(at + 5, index), .to = read_device(at + 1, index)};
  const uint64_t element = size_of(plan.dtype);
  const std::byte* numbers = at + 16;
  uint64_t extent = 1;  // element count with empty dimensions taken as 1: bounds every product below
  Dims strides;
  for (int d = 0; d < rank; ++d) {
    const auto size = get<int64_t>(numbers + 8 * d);
    const auto stride = get<int64_t>(numbers + 8 * (rank + d));
    if (size < 0 || stride < 0) refuse("tensor ", index, " has the negative size or stride ", std::min(size, stride));
    const auto factor = static_cast<uint64_t>(std::max<int64_t>(size, 1));
    if (factor > budget / element / extent) refuse("tensor ", index, " exceeds the limit on tensors' bytes");
    extent *= factor;
    plan.sizes.push_back(size);
    strides.push_back(stride);
  }
  if (extent * element > budget) refuse("tensor ", index, " exceeds the limit on tensors' bytes");
  plan.layout = dense_layout(plan.sizes, strides);
  if (!plan.layout.direct || !(plan.layout.strides == strides)) {
    refuse("tensor ", index, " of sizes ", plan.sizes, " has strides ", strides, " that leave gaps or overlap");
  }
  plan.bytes = static_cast<std::size_t>(plan.layout.elements) * element;
  if (lent) plan.lent = read_place(at + tensor_descriptor_bytes(rank), plan, index);
  if (get<uint64_t>(at + 8) != plan.frame_bytes()) {
    refuse("tensor ", index, " of sizes ", plan.sizes, " announces ", get<uint64_t>(at + 8), " bytes, has ",
           plan.frame_bytes());
  }
  budget -= extent * element;
  at += descriptor;
  left -= descriptor;
  return plan;
}

ForkDescriptor read_fork(const std::byte* at) {
  ForkDescriptor fork;
  if (get<uint8_t>(at) > ForkDescriptor::receiver) refuse("unknown kind of reference ", int{get<uint8_t>(at)});
  if (at[1] != std::byte{0} || at[2] != std::byte{0} || at[3] != std::byte{0}) refuse("unknown flags of a reference");
  fork.kind = static_cast<ForkDescriptor::Kind>(get<uint8_t>(at));
  fork.owner = get<int32_t>(at + 4);
  fork.owner_incarnation = get<uint64_t>(at + 8);
  fork.rref.worker = get<int32_t>(at + 16);
  fork.fork_id.worker = get<int32_t>(at + 20);
  fork.rref.incarnation = get<uint64_t>(at + 24);
  fork.rref.number = get<uint64_t>(at + 32);
  fork.fork_id.incarnation = get<uint64_t>(at + 40);
  fork.fork_id.number = get<uint64_t>(at + 48);
  return fork;
}

/// Reads the fields of a header that describe its message, whether or not a body follows.
void read_message(const std::byte* at, Message& message) noexcept {
  message.kind = static_cast<MessageKind>(get<uint8_t>(at + 5));
  message.flags = get<uint8_t>(at + 6) & kKnownFlags;
  message.depth = get<uint8_t>(at + 7);
  message.call_id = get<uint64_t>(at + 8);
  message.function = get<uint64_t>(at + 16);
  message.timeout_us = get<uint64_t>(at + 24);
  message.autograd_context = get<uint64_t>(at + 32);
  message.autograd_message = get<uint64_t>(at + 40);
  message.trace_id = get<uint64_t>(at + 48);
  message.span_id = get<uint64_t>(at + 56);
  message.acknowledged = get<uint32_t>(at + kAcknowledgedOffset);
}

/// Whether nothing follows the header.
bool is_bare(const std::byte* at) noexcept {
  return (get<uint64_t>(at + 64) | get<uint64_t>(at + 72) | get<uint64_t>(at + 80) | get<uint64_t>(at + 88)) == 0;
}

/// Reads a message that consists of a header only, such as an empty call, its reply or a ping: half of the messages of
/// many programs. Its containers are empty, as usually those of `to` are: moving them would be most of the cost.
void read_bare(const std::byte* at, Message& to) {
  if (!to.extension.empty() || !to.payload.empty() || !to.tensors.empty() || !to.requires_grad.empty() ||
      !to.placements.empty() || !to.lent.empty() || !to.forks.empty() || !to.references.empty()) {
    to = Message();
  }
  read_message(at, to);
  to.frame_bytes = kFrameHeaderBytes;
  to.has_receiver = false;
}

/// Refuses bytes other than 0 and 1: reading them as bool would be undefined behaviour.
void check_bools(const Tensor& tensor, std::size_t index) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.storage()->data());
  if (std::any_of(bytes, bytes + tensor.storage()->bytes(), [](uint8_t byte) { return byte > 1; })) {
    refuse("tensor ", index, " of dtype bool has bytes other than 0 and 1");
  }
}

}  // namespace

std::optional<FrameHeader> read_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) noexcept {
  const std::byte* const at = bytes.data();
  if (get<uint32_t>(at) != kFrameMagic || get<uint8_t>(at + 4) != kWireVersion ||
      get<uint32_t>(at + 100) != crc32c(bytes.first(kFrameHeaderBytes - 4)))
    return std::nullopt;
  FrameHeader header{.kind = static_cast<MessageKind>(get<uint8_t>(at + 5)),
                     .is_part = get<uint8_t>(at + 5) == kPartOfFrame,
                     .in_parts = (get<uint8_t>(at + kFlagsOffset) & kFrameInParts) != 0,
                     .call_id = get<uint64_t>(at + 8),
                     .function = get<uint64_t>(at + 16),
                     .payload = get<uint64_t>(at + kPayloadBytesOffset)};
  header.metadata = uint64_t{get<uint32_t>(at + 80)} + get<uint32_t>(at + 84) +
                    get<uint32_t>(at + 92) * uint64_t{kForkDescriptorBytes};
  header.body = header.metadata + header.payload + get<uint64_t>(at + 72);
  return header;
}

FrameReader::FrameReader(const Limits& limits)
    : limits_(limits), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

std::size_t FrameReader::Header::metadata() const noexcept {
  return extension + tensor_descriptors + references * kForkDescriptorBytes;
}

/// Returns true if the header was a complete message, which is then in `bare`.
bool FrameReader::parse_header(Message& bare) {
  const std::byte* at = buffer_.get() + begin_;
  if (get<uint32_t>(at) != kFrameMagic) refuse("it does not start with \"TDRL\"");
  if (get<uint8_t>(at + 4) != kWireVersion) {
    refuse("wire version ", int{get<uint8_t>(at + 4)}, ", this side speaks ", int{kWireVersion});
  }
  if (get<uint32_t>(at + 100) != crc32c({at, kFrameHeaderBytes - 4})) refuse("the header's checksum is wrong");
  const auto kind = get<uint8_t>(at + 5), flags = get<uint8_t>(at + 6), depth = get<uint8_t>(at + 7);
  if (kind == kPartOfFrame) {
    begin_part(at);
    return false;
  }
  if (kind < 1 || kind > static_cast<uint8_t>(MessageKind::lending)) refuse("unknown kind of message ", int{kind});
  if ((flags & ~(kKnownFlags | kFrameInParts)) != 0) refuse("unknown flags");
  if (depth != 0 && kind != static_cast<uint8_t>(MessageKind::request)) refuse("only requests may have a depth");
  const bool in_parts = (flags & kFrameInParts) != 0;
  if (in_parts && in_parts_) refuse("it comes in parts, but an earlier such frame has not ended");

  if (!in_parts && is_bare(at)) {
    read_bare(at, bare);
    begin_ += kFrameHeaderBytes;
    return true;
  }

  Unfinished& frame = in_parts ? in_parts_frame_ : whole_;
  Message& message = frame.message;  // `next` has moved out the previous contents
  read_message(at, message);
  const Header& header = frame.header = {.extension = get<uint32_t>(at + 80),
                                         .tensor_descriptors = get<uint32_t>(at + 84),
                                         .tensors = get<uint32_t>(at + 88),
                                         .references = get<uint32_t>(at + 92),
                                         .payload = get<uint64_t>(at + 64),
                                         .tensor_bytes = get<uint64_t>(at + 72)};
  check_limit("bytes of extension", header.extension, limits_.max_extension_bytes);
  check_limit("bytes of arguments", header.payload, limits_.max_payload_bytes);
  check_limit("tensors", header.tensors, limits_.max_tensors);
  check_limit("references", header.references, limits_.max_references);
  const uint64_t most_descriptors = header.tensors * (tensor_descriptor_bytes(Dims::kMaxDims) + kLentPlaceBytes);
  check_limit("bytes of tensor descriptors", header.tensor_descriptors, most_descriptors);
  check_limit("bytes of tensors", header.tensor_bytes, limits_.max_tensor_bytes + header.tensors * kTensorAlignment);
  if (in_parts_) {
    const bool may_be_large = message.kind != MessageKind::request && message.kind != MessageKind::reply;
    check_limit("bytes between parts", may_be_large ? header.tensor_bytes : header.body(), kMaxBytesBetweenParts);
  }

  begin_ += kFrameHeaderBytes;
  if (in_parts) {
    if (header.body() == 0) refuse("it comes in parts, but is empty");
    in_parts_ = true;
    unannounced_ = header.body();
    frame.begin();
    return false;
  }
  now_ = Incoming::whole;
  left_ = header.body();
  frame.begin();
  return false;
}

void FrameReader::begin_part(const std::byte* header) {
  const auto bytes = get<uint64_t>(header + kPayloadBytesOffset);
  const auto acknowledged = get<uint32_t>(header + kAcknowledgedOffset);
  if (!in_parts_) refuse("a part without a frame in parts");
  if (bytes == 0 || bytes > unannounced_) refuse("a part of ", bytes, " bytes, but ", unannounced_, " are left");
  const auto expected = part_header(bytes, acknowledged);
  if (!std::equal(expected.begin(), expected.end(), header)) refuse("the header of a part has unexpected fields");
  in_parts_frame_.message.acknowledged = acknowledged;
  unannounced_ -= bytes;
  left_ = bytes;
  now_ = Incoming::part;
  begin_ += kFrameHeaderBytes;
}

void FrameReader::Unfinished::begin() {
  metadata.clear();
  phase = Phase::metadata;
  expect_more(metadata, header.metadata());
}

void FrameReader::Unfinished::expect(void* data, std::size_t size) {
  if (size > 0) missing.push_back({data, size});
}

/// Makes room for the next bytes. Memory is reserved at once, but touched only as bytes arrive.
void FrameReader::Unfinished::expect_more(Bytes& of, std::size_t total) {
  if (of.empty()) of.reserve(total);
  const std::size_t before = of.size(), more = std::min(total - before, kMemoryStep);
  of.resize(before + more);
  expect(of.data() + before, more);
}

void FrameReader::Unfinished::parse_metadata(const Limits& limits) {
  const std::byte* at = metadata.data();
  message.extension.assign(at, at + header.extension);
  at += header.extension;

  // All descriptors are checked, each alone and all against the announced total, before any tensor is allocated.
  std::size_t left = header.tensor_descriptors;
  uint64_t budget = limits.max_tensor_bytes;
  std::size_t offset = kFrameHeaderBytes + metadata.size() + header.payload;
  const std::size_t before_tensors = offset;
  std::vector<TensorPlan> plans;
  plans.reserve(header.tensors);
  for (std::size_t i = 0; i < header.tensors; ++i) {
    plans.push_back(read_tensor(at, left, budget, i));
    offset += padding_to_alignment(offset) + plans.back().frame_bytes();
  }
  if (left != 0) refuse(left, " bytes follow the last tensor descriptor");
  if (offset - before_tensors != header.tensor_bytes) {
    refuse(header.tensor_bytes, " bytes of tensors announced, but their descriptors add up to ",
           offset - before_tensors);
  }
  message.forks.reserve(header.references);
  for (std::size_t i = 0; i < header.references; ++i, at += kForkDescriptorBytes) {
    message.forks.push_back(read_fork(at));
  }

  message.frame_bytes = offset;
  message.payload.clear();
  expect_more(message.payload, header.payload);
  message.tensors.reserve(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const TensorPlan& plan = plans[i];
    if (plan.lent.id != 0) {
      message.tensors.push_back(without_memory(plan.sizes, plan.layout, plan.dtype));
      message.lent.resize(plans.size());
      message.lent[i] = plan.lent;
    } else {
      message.tensors.push_back(raw::on_storage(detail::host_block(plan.bytes, plan.placement.to), plan.sizes,
                                                plan.layout.strides, 0, plan.dtype));
    }
    message.requires_grad.push_back(plans[i].requires_grad);
    if (plans[i].placement != Placement{}) message.placements.resize(plans.size());
  }
  for (std::size_t i = 0; i < message.placements.size(); ++i) message.placements[i] = plans[i].placement;
  phase = Phase::payload;
  if (message.payload.size() == header.payload) expect_tensors();  // a small payload is read together with the tensors
}

void FrameReader::Unfinished::expect_tensors() {
  std::size_t offset = kFrameHeaderBytes + header.metadata() + header.payload;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    const Storage& block = *message.tensors[i].storage();
    const bool lent = !message.lent.empty() && message.lent[i].id != 0;
    const std::size_t before = padding_to_alignment(offset), bytes = lent ? 0 : block.bytes();
    expect(padding.data(), before);
    expect(block.data(), bytes);
    offset += before + bytes;
  }
  phase = Phase::tensors;
}

/// Continues after all expected bytes have arrived. Returns true if the message is complete.
bool FrameReader::Unfinished::phase_complete(const Limits& limits) {
  missing.clear();
  next_missing = 0;
  switch (phase) {
    case Phase::metadata:
      if (metadata.size() < header.metadata()) {
        expect_more(metadata, header.metadata());
      } else {
        parse_metadata(limits);
      }
      return false;
    case Phase::payload:
      if (message.payload.size() < header.payload) {
        expect_more(message.payload, header.payload);
      } else {
        expect_tensors();
      }
      return false;
    default:
      return true;
  }
}

void FrameReader::fill_from_buffer(Unfinished& frame) {
  while (frame.next_missing < frame.missing.size() && begin_ < end_ && left_ > 0) {
    MutableBuffer& want = frame.missing[frame.next_missing];
    const std::size_t count = std::min({want.size, end_ - begin_, left_});
    std::memcpy(want.data, buffer_.get() + begin_, count);
    begin_ += count;
    left_ -= count;
    want = {static_cast<std::byte*>(want.data) + count, want.size - count};
    if (want.size == 0) ++frame.next_missing;
  }
}

bool FrameReader::next(Message& message) try {
  if (failed_) refuse("the stream cannot be read after an error");
  for (;;) {
    if (now_ == Incoming::header) {
      if (end_ - begin_ < kFrameHeaderBytes) return false;
      if (!parse_header(message)) continue;
      return true;
    }
    Unfinished& frame = now_ == Incoming::whole ? whole_ : in_parts_frame_;
    fill_from_buffer(frame);
    if (frame.next_missing == frame.missing.size()) {
      if (!frame.phase_complete(limits_)) continue;
      for (std::size_t i = 0; i < frame.message.tensors.size(); ++i) {
        if (frame.message.tensors[i].dtype() == kBool) check_bools(frame.message.tensors[i], i);
      }
      if (now_ == Incoming::part) in_parts_ = false;
      now_ = Incoming::header;
      message = std::move(frame.message);
      return true;
    }
    if (left_ > 0) return false;
    now_ = Incoming::header;  // the rest is in other parts
  }
} catch (const std::bad_alloc&) {
  failed_ = true;
  refuse("out of memory for the announced sizes");
} catch (...) {
  failed_ = true;
  throw;
}

std::span<const MutableBuffer> FrameReader::prepare() {
  // At this point, either the buffer holds less than a header, or it is empty and bytes are missing.
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::size_t count = 0;
  bool complete = true;
  if (now_ != Incoming::header) {
    const Unfinished& frame = now_ == Incoming::whole ? whole_ : in_parts_frame_;
    std::size_t left = left_, i = frame.next_missing;
    for (; i < frame.missing.size() && left > 0 && count + 1 < kMaxBuffers; ++i) {
      prepared_[count] = frame.missing[i];
      prepared_[count].size = std::min(prepared_[count].size, left);
      left -= prepared_[count++].size;
    }
    // The buffer may be appended only if all missing bytes of the phase or part have a place: bytes must stay in order.
    complete = i == frame.missing.size() || left == 0;
  }
  if (complete && end_ < kBufferBytes) prepared_[count++] = {buffer_.get() + end_, kBufferBytes - end_};
  return {prepared_.data(), count};
}

void FrameReader::commit(std::size_t bytes) {
  if (now_ != Incoming::header) {
    Unfinished& frame = now_ == Incoming::whole ? whole_ : in_parts_frame_;
    while (bytes > 0 && left_ > 0 && frame.next_missing < frame.missing.size()) {
      MutableBuffer& want = frame.missing[frame.next_missing];
      const std::size_t count = std::min({want.size, bytes, left_});
      want = {static_cast<std::byte*>(want.data) + count, want.size - count};
      bytes -= count;
      left_ -= count;
      if (want.size == 0) ++frame.next_missing;
    }
  }
  end_ += bytes;
}

}  // namespace tendril::rpc
