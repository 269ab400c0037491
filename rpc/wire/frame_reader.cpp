// Reading frames. Every number comes from the peer: each is checked before it is used, the sizes before they are
// allocated, and all checks stay in release builds.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tendril/rpc/session/transfer.h"
#include "tendril/rpc/wire/byte_order.h"
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

struct TensorPlan {
  Dims sizes;
  DenseLayout layout;
  DType dtype;
  bool requires_grad;
  Placement placement;
  std::size_t bytes;
};

Device read_device(const std::byte* at, std::size_t index) {
  const auto type = get<uint8_t>(at);
  const auto number = get<int8_t>(at + 1);
  if (type > 1 || number < 0 || (type == 0 && number != 0)) {
    refuse("tensor ", index, " names the unknown device ", int{type}, ':', int{number});
  }
  return {static_cast<DeviceType>(type), number};
}

/// Reads one descriptor, `left` bytes being there, and advances past it. `budget` is what remains of max_tensor_bytes.
TensorPlan read_tensor(const std::byte*& at, std::size_t& left, uint64_t& budget, std::size_t index) {
  if (left < tensor_descriptor_bytes(0)) refuse("the descriptor of tensor ", index, " is cut off");
  const auto dtype = get<uint8_t>(at), rank = get<uint8_t>(at + 3), flags = get<uint8_t>(at + 4);
  if (dtype >= kNumDTypes) refuse("tensor ", index, " has the unknown dtype ", int{dtype});
  if (rank > Dims::kMaxDims) refuse("tensor ", index, " has ", int{rank}, " dimensions, at most ", Dims::kMaxDims);
  if ((flags & ~kTensorRequiresGrad) != 0 || at[7] != std::byte{0}) refuse("tensor ", index, " has unknown flags");
  if (left < tensor_descriptor_bytes(rank)) refuse("the descriptor of tensor ", index, " is cut off");

  TensorPlan plan;
  plan.dtype = static_cast<DType>(dtype);
  plan.requires_grad = flags != 0;
  plan.placement = {.from = read_device(at + 5, index), .to = read_device(at + 1, index)};
  const uint64_t element = size_of(plan.dtype);
  const std::byte* numbers = at + 16;
  uint64_t extent = 1;  // of the tensor with empty dimensions taken as 1: bounds every product below
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
  if (get<uint64_t>(at + 8) != plan.bytes) {
    refuse("tensor ", index, " of sizes ", plan.sizes, " announces ", get<uint64_t>(at + 8), " bytes, has ",
           plan.bytes);
  }
  budget -= extent * element;
  at += tensor_descriptor_bytes(rank);
  left -= tensor_descriptor_bytes(rank);
  return plan;
}

ForkDescriptor read_fork(const std::byte* at) {
  ForkDescriptor fork;
  if (get<uint8_t>(at) > ForkDescriptor::create) refuse("unknown kind of reference ", int{get<uint8_t>(at)});
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

/// Reading a bool that is neither 0 nor 1 is undefined: such bytes must not get further.
void check_bools(const Tensor& tensor, std::size_t index) {
  const auto* bytes = static_cast<const uint8_t*>(tensor.storage()->data());
  if (std::any_of(bytes, bytes + tensor.storage()->bytes(), [](uint8_t byte) { return byte > 1; })) {
    refuse("tensor ", index, " of dtype bool holds other bytes than 0 and 1");
  }
}

}  // namespace

FrameReader::FrameReader(const Limits& limits)
    : limits_(limits), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

void FrameReader::expect(void* data, std::size_t size) {
  if (size > 0) missing_.push_back({data, size});
}

void FrameReader::parse_header() {
  const std::byte* at = buffer_.get() + begin_;
  if (get<uint32_t>(at) != kFrameMagic) refuse("it does not start with \"TDRL\"");
  if (get<uint8_t>(at + 4) != kWireVersion) {
    refuse("wire version ", int{get<uint8_t>(at + 4)}, ", this side speaks ", int{kWireVersion});
  }
  if (get<uint32_t>(at + 100) != crc32c({at, kFrameHeaderBytes - 4})) refuse("the header's checksum is wrong");
  const auto kind = get<uint8_t>(at + 5), flags = get<uint8_t>(at + 6), depth = get<uint8_t>(at + 7);
  if (kind < 1 || kind > static_cast<uint8_t>(MessageKind::acknowledge)) refuse("unknown kind of message ", int{kind});
  if ((flags & ~kKnownFlags) != 0) refuse("unknown flags");
  if (depth != 0 && kind != static_cast<uint8_t>(MessageKind::request)) refuse("a depth in what is no request");

  // What was in message_ has been moved out by `next`.
  message_.kind = static_cast<MessageKind>(kind);
  message_.flags = flags;
  message_.depth = depth;
  message_.call_id = get<uint64_t>(at + 8);
  message_.function = get<uint64_t>(at + 16);
  message_.timeout_us = get<uint64_t>(at + 24);
  message_.autograd_context = get<uint64_t>(at + 32);
  message_.autograd_message = get<uint64_t>(at + 40);
  message_.trace_id = get<uint64_t>(at + 48);
  message_.span_id = get<uint64_t>(at + 56);
  message_.acknowledged = get<uint32_t>(at + kAcknowledgedOffset);
  header_ = {.extension = get<uint32_t>(at + 80),
             .tensor_descriptors = get<uint32_t>(at + 84),
             .tensors = get<uint32_t>(at + 88),
             .references = get<uint32_t>(at + 92),
             .payload = get<uint64_t>(at + 64),
             .tensor_bytes = get<uint64_t>(at + 72)};
  check_limit("bytes of extension", header_.extension, limits_.max_extension_bytes);
  check_limit("bytes of arguments", header_.payload, limits_.max_payload_bytes);
  check_limit("tensors", header_.tensors, limits_.max_tensors);
  check_limit("references", header_.references, limits_.max_references);
  const uint64_t most_descriptors = header_.tensors * tensor_descriptor_bytes(Dims::kMaxDims);
  check_limit("bytes of tensor descriptors", header_.tensor_descriptors, most_descriptors);
  check_limit("bytes of tensors", header_.tensor_bytes, limits_.max_tensor_bytes + header_.tensors * kTensorAlignment);

  begin_ += kFrameHeaderBytes;
  metadata_.clear();
  expect_more(metadata_, metadata_bytes());
  phase_ = Phase::metadata;
}

std::size_t FrameReader::metadata_bytes() const noexcept {
  return header_.extension + header_.tensor_descriptors + header_.references * kForkDescriptorBytes;
}

/// Makes room for the next part. The reserved memory is not touched before its part is due.
void FrameReader::expect_more(Bytes& of, std::size_t total) {
  if (of.empty()) of.reserve(total);
  const std::size_t before = of.size(), part = std::min(total - before, kPartBytes);
  of.resize(before + part);
  expect(of.data() + before, part);
}

void FrameReader::parse_metadata() {
  const std::byte* at = metadata_.data();
  message_.extension.assign(at, at + header_.extension);
  at += header_.extension;

  // All descriptors are checked, alone and against the announced total, before the first byte is allocated for them.
  std::size_t left = header_.tensor_descriptors;
  uint64_t budget = limits_.max_tensor_bytes;
  std::size_t offset = kFrameHeaderBytes + metadata_.size() + header_.payload;
  const std::size_t before_tensors = offset;
  std::vector<TensorPlan> plans;
  plans.reserve(header_.tensors);
  for (std::size_t i = 0; i < header_.tensors; ++i) {
    plans.push_back(read_tensor(at, left, budget, i));
    offset += padding_to_alignment(offset) + plans.back().bytes;
  }
  if (left != 0) refuse(left, " bytes follow the last tensor descriptor");
  if (offset - before_tensors != header_.tensor_bytes) {
    refuse(header_.tensor_bytes, " bytes of tensors announced, their descriptors say ", offset - before_tensors);
  }
  message_.forks.reserve(header_.references);
  for (std::size_t i = 0; i < header_.references; ++i, at += kForkDescriptorBytes) {
    message_.forks.push_back(read_fork(at));
  }

  message_.frame_bytes = offset;
  message_.payload.clear();
  expect_more(message_.payload, header_.payload);
  message_.tensors.reserve(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Tensor tensor = raw::on_storage(detail::host_block(plans[i].bytes, plans[i].placement.to), plans[i].sizes,
                                    plans[i].layout.strides, 0, plans[i].dtype);
    message_.tensors.push_back(std::move(tensor));
    message_.requires_grad.push_back(plans[i].requires_grad);
    if (plans[i].placement != Placement{}) message_.placements.resize(plans.size());
  }
  for (std::size_t i = 0; i < message_.placements.size(); ++i) message_.placements[i] = plans[i].placement;
  phase_ = Phase::payload;
  if (message_.payload.size() == header_.payload) expect_tensors();  // read together with what is short
}

void FrameReader::expect_tensors() {
  std::size_t offset = kFrameHeaderBytes + metadata_bytes() + header_.payload;
  for (const Tensor& tensor : message_.tensors) {
    const std::size_t padding = padding_to_alignment(offset), bytes = tensor.storage()->bytes();
    expect(padding_.data(), padding);
    expect(tensor.storage()->data(), bytes);
    offset += padding + bytes;
  }
  phase_ = Phase::tensors;
}

/// What was expected is there. True: that was the whole message.
bool FrameReader::part_complete() {
  switch (phase_) {
    case Phase::metadata:
      if (metadata_.size() < metadata_bytes()) {
        expect_more(metadata_, metadata_bytes());
      } else {
        parse_metadata();
      }
      return false;
    case Phase::payload:
      if (message_.payload.size() < header_.payload) {
        expect_more(message_.payload, header_.payload);
      } else {
        expect_tensors();
      }
      return false;
    default:
      return true;
  }
}

void FrameReader::fill_from_buffer() {
  while (next_missing_ < missing_.size() && begin_ < end_) {
    MutableBuffer& want = missing_[next_missing_];
    const std::size_t count = std::min(want.size, end_ - begin_);
    std::memcpy(want.data, buffer_.get() + begin_, count);
    begin_ += count;
    want = {static_cast<std::byte*>(want.data) + count, want.size - count};
    if (want.size == 0) ++next_missing_;
  }
}

bool FrameReader::next(Message& message) try {
  if (phase_ == Phase::failed) refuse("the stream is of no further use");
  for (;;) {
    if (phase_ == Phase::header) {
      if (end_ - begin_ < kFrameHeaderBytes) return false;
      parse_header();
    }
    fill_from_buffer();
    if (next_missing_ < missing_.size()) return false;
    missing_.clear();
    next_missing_ = 0;
    if (!part_complete()) continue;
    for (std::size_t i = 0; i < message_.tensors.size(); ++i) {
      if (message_.tensors[i].dtype() == kBool) check_bools(message_.tensors[i], i);
    }
    phase_ = Phase::header;
    message = std::move(message_);
    return true;
  }
} catch (const std::bad_alloc&) {
  phase_ = Phase::failed;
  refuse("no memory for what it announces");
} catch (...) {
  phase_ = Phase::failed;
  throw;
}

std::span<const MutableBuffer> FrameReader::prepare() {
  // Here either the buffer holds less than a header, or it is empty and parts are missing.
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::size_t count = 0;
  for (std::size_t i = next_missing_; i < missing_.size() && count + 1 < kMaxBuffers; ++i)
    prepared_[count++] = missing_[i];
  // The buffer may follow only what is missing of a whole phase: bytes must not overtake each other.
  const bool complete = missing_.size() - next_missing_ == count;
  if (complete && end_ < kBufferBytes) prepared_[count++] = {buffer_.get() + end_, kBufferBytes - end_};
  return {prepared_.data(), count};
}

void FrameReader::commit(std::size_t bytes) {
  while (bytes > 0 && next_missing_ < missing_.size()) {
    MutableBuffer& want = missing_[next_missing_];
    const std::size_t count = std::min(want.size, bytes);
    want = {static_cast<std::byte*>(want.data) + count, want.size - count};
    bytes -= count;
    if (want.size == 0) ++next_missing_;
  }
  end_ += bytes;
}

}  // namespace tendril::rpc
