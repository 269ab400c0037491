// Writes frames. docs/wire.md describes the layout; frame_reader.cpp reads them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tendril/rpc/wire/byte_order.h"
#include "tendril/rpc/wire/device_memory.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/rpc/wire/wire_layout.h"
#include "tendril/rpc/wire/wire_tensor.h"

namespace tendril::rpc {
namespace {

constexpr std::byte kZeros[kTensorAlignment] = {};

void check_fits(const char* what, uint64_t got, uint64_t limit) {
  TENDRIL_CHECK_AS(MessageError, got <= limit, "a message has ", got, " ", what, ", the receiver accepts at most ",
                   limit);
}

void check_can_travel(const Tensor& tensor) {
  TENDRIL_CHECK_AS(MessageError, tensor.defined(), "a message holds an undefined tensor");
  TENDRIL_CHECK_AS(MessageError, tensor.device().is_cpu(), "a frame can hold only CPU tensors, got one on ",
                   tensor.device());
}

bool is_lent(const Message& message, std::size_t index) noexcept {
  return !message.lent.empty() && message.lent[index].id != 0;
}

std::byte* put_tensor(std::byte* at, const Message& message, std::size_t index, const DenseLayout& layout,
                      std::size_t bytes) {
  const Tensor& tensor = message.tensors[index];
  const Placement placement = message.placements.empty() ? Placement{} : message.placements[index];
  const bool requires_grad =
      message.requires_grad.empty() ? tensor.impl()->current_history() != nullptr : message.requires_grad[index];
  at = put<uint8_t>(at, static_cast<uint8_t>(tensor.dtype()));
  at = put(at, placement.to);
  at = put<uint8_t>(at, static_cast<uint8_t>(tensor.dim()));
  at = put<uint8_t>(at, (requires_grad ? kTensorRequiresGrad : 0) | (is_lent(message, index) ? kTensorLent : 0));
  at = put(at, placement.from);
  at = put<uint8_t>(at, 0);
  at = put<uint64_t>(at, bytes);
  for (int64_t size : tensor.sizes()) at = put(at, size);
  for (int64_t stride : layout.strides) at = put(at, stride);
  if (!is_lent(message, index)) return at;
  const LentPlace& place = message.lent[index];
  at = put(at, place.segment);
  at = put<uint32_t>(at, 0);
  return put(put(at, place.offset), place.id);
}

std::byte* put_fork(std::byte* at, const ForkDescriptor& fork) {
  at = put<uint8_t>(at, fork.kind);
  at = std::fill_n(at, 3, std::byte{0});
  at = put<int32_t>(at, fork.owner);
  at = put<uint64_t>(at, fork.owner_incarnation);
  at = put<int32_t>(at, fork.rref.worker);
  at = put<int32_t>(at, fork.fork_id.worker);
  at = put<uint64_t>(at, fork.rref.incarnation);
  at = put<uint64_t>(at, fork.rref.number);
  at = put<uint64_t>(at, fork.fork_id.incarnation);
  return put<uint64_t>(at, fork.fork_id.number);
}

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

uint32_t checksum_before_acknowledged(const HeaderBytes& header) noexcept {
  return crc32c(std::span(header).first(kAcknowledgedOffset));
}

/// Writes the count of received frames. It is the last field before the checksum, so it can be replaced cheaply:
/// `before` is the checksum of the bytes before it.
void put_acknowledged(HeaderBytes& header, uint32_t before, uint32_t received) noexcept {
  std::byte* const count = header.data() + kAcknowledgedOffset;
  std::byte* const checksum = put<uint32_t>(count, received);
  put<uint32_t>(checksum, crc32c({count, sizeof received}, before));
}

}  // namespace

Frame::Frame(const Message& message, Bytes&& payload, const Limits& limits)
    : kind_(message.kind),
      depth_(message.depth),
      brings_references_(rpc::brings_references(message.forks)),
      call_id_(message.call_id),
      payload_(std::move(payload)),
      sent_tensors_(message.sent_tensors),
      lending_(message.lending) {
  check_fits("bytes of extension", message.extension.size(), limits.max_extension_bytes);
  check_fits("bytes of arguments", payload_.size(), limits.max_payload_bytes);
  check_fits("tensors", message.tensors.size(), limits.max_tensors);
  check_fits("references", message.forks.size(), limits.max_references);

  std::size_t descriptors = 0;
  uint64_t written_out = 0;  // with broadcast dimensions expanded, as the receiver's operations may need
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    const Tensor& tensor = message.tensors[i];
    check_can_travel(tensor);
    descriptors += tensor_descriptor_bytes(tensor.dim()) + (is_lent(message, i) ? kLentPlaceBytes : 0);
    written_out += static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
  }
  check_fits("bytes of tensors", written_out, limits.max_tensor_bytes);

  metadata_.resize(message.extension.size() + descriptors + message.forks.size() * kForkDescriptorBytes);
  std::byte* at = std::copy(message.extension.begin(), message.extension.end(), metadata_.data());
  const std::size_t before_tensors = kFrameHeaderBytes + metadata_.size() + payload_.size();
  size_ = before_tensors;
  blocks_.reserve(message.tensors.size());
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    const Tensor& tensor = message.tensors[i];
    const DenseLayout layout = dense_layout(tensor.sizes(), tensor.strides());
    const std::size_t bytes =
        is_lent(message, i) ? 0 : static_cast<std::size_t>(layout.elements) * size_of(tensor.dtype());
    at = put_tensor(at, message, i, layout, bytes);
    SentTensors::Block block{tensor.raw_data(), bytes, padding_to_alignment(size_), tensor.storage(), 0};
    if (!layout.direct) {
      block.memory = pack(tensor, layout);
      block.data = block.memory->data();
    }
    block.version = block.memory->version();
    size_ += block.padding + bytes;
    blocks_.push_back(std::move(block));
  }
  for (const ForkDescriptor& fork : message.forks) at = put_fork(at, fork);
  const auto tensors = static_cast<uint32_t>(message.tensors.size());

  // task 2.1: the header's fields into header_, one after the other, as docs/wire.md has them
  at = header_.data();
  at = put<uint32_t>(at, kFrameMagic);
  at = put<uint8_t>(at, kWireVersion);
  at = put<uint8_t>(at, static_cast<uint8_t>(message.kind));
  at = put<uint8_t>(at, message.flags);
  at = put<uint8_t>(at, message.depth);
  at = put<uint64_t>(at, message.call_id);
  at = put<uint64_t>(at, message.function);
  at = put<uint64_t>(at, message.timeout_us);
  at = put<uint64_t>(at, message.autograd_context);
  at = put<uint64_t>(at, message.autograd_message);
  at = put<uint64_t>(at, message.trace_id);
  at = put<uint64_t>(at, message.span_id);
  at = put<uint64_t>(at, payload_.size());
  at = put<uint64_t>(at, size_ - before_tensors);
  at = put<uint32_t>(at, static_cast<uint32_t>(message.extension.size()));
  at = put<uint32_t>(at, static_cast<uint32_t>(descriptors));
  at = put<uint32_t>(at, tensors);
  put<uint32_t>(at, static_cast<uint32_t>(message.forks.size()));
  // end of task
  unacknowledged_ = checksum_before_acknowledged(header_);
  acknowledge(0);
}

void Frame::acknowledge(uint32_t received) noexcept { put_acknowledged(header_, unacknowledged_, received); }

void Frame::announce_parts() noexcept {
  header_[kFlagsOffset] |= std::byte{kFrameInParts};
  unacknowledged_ = checksum_before_acknowledged(header_);
  acknowledge(0);  // the last part contains the count
}

std::array<std::byte, kFrameHeaderBytes> part_header(std::size_t bytes, uint32_t acknowledged) noexcept {
  std::array<std::byte, kFrameHeaderBytes> header{};
  put<uint32_t>(header.data(), kFrameMagic);
  put<uint8_t>(header.data() + 4, kWireVersion);
  put<uint8_t>(header.data() + 5, kPartOfFrame);
  put<uint64_t>(header.data() + kPayloadBytesOffset, bytes);
  put_acknowledged(header, checksum_before_acknowledged(header), acknowledged);
  return header;
}

void SentTensors::copy() {
  for (Block& block : blocks) {
    Ref<Storage> copy = Storage::allocate(block.bytes);
    if (block.bytes > 0) std::memcpy(copy->data(), block.data, block.bytes);
    block.data = copy->data();
    block.version = copy->version();
    block.memory = std::move(copy);
  }
}

void Frame::share_tensors() {
  if (!sent_tensors_) return;
  sent_tensors_->blocks.swap(blocks_);
  if (sent_tensors_->call_ended) sent_tensors_->copy();
}

bool Frame::unchanged() const noexcept {
  const auto is_unchanged = [](const SentTensors::Block& block) { return block.memory->version() == block.version; };
  return std::ranges::all_of(blocks_, is_unchanged) &&
         (!sent_tensors_ || std::ranges::all_of(sent_tensors_->blocks, is_unchanged));
}

std::size_t Frame::gather(std::size_t from, std::span<ConstBuffer> out) const noexcept {
  if (lending_) lending_->leaves();
  std::size_t count = 0;
  const auto add = [&](const void* data, std::size_t size) {
    if (from >= size) {
      from -= size;
    } else if (count < out.size()) {
      out[count++] = {static_cast<const std::byte*>(data) + from, size - from};
      from = 0;
    }
  };
  add(header_.data(), header_.size());
  add(metadata_.data(), metadata_.size());
  add(payload_.data(), payload_.size());
  const auto add_blocks = [&](const std::vector<SentTensors::Block>& blocks) {
    for (const SentTensors::Block& block : blocks) {
      if (count == out.size()) break;
      add(kZeros, block.padding);
      add(block.data, block.bytes);
    }
  };
  add_blocks(blocks_);
  if (sent_tensors_) add_blocks(sent_tensors_->blocks);
  return count;
}

Message looped_back(Message message) {
  message.requires_grad.clear();
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    Tensor& tensor = message.tensors[i];
    const Device to = message.placements.empty() ? kCPU : message.placements[i].to;
    TENDRIL_CHECK_AS(MessageError, tensor.defined(), "a message holds an undefined tensor");
    if (!to.is_cpu() || !tensor.device().is_cpu()) {
      message.requires_grad.push_back(tensor.impl()->current_history() != nullptr);
      tensor = detail::copied_to(tensor, dense_layout(tensor.sizes(), tensor.strides()), to);
      continue;
    }
    check_can_travel(tensor);
    const DenseLayout layout = dense_layout(tensor.sizes(), tensor.strides());
    DenseLayout copied = layout;
    copied.direct = true;
    Tensor copy = make_dense(tensor.sizes(), copied, tensor.dtype());
    if (layout.direct) {
      std::copy_n(static_cast<const std::byte*>(tensor.raw_data()), copy.storage()->bytes(),
                  static_cast<std::byte*>(copy.raw_data()));
    } else {
      copy.impl()->storage = pack(tensor, layout);
    }
    message.requires_grad.push_back(tensor.impl()->current_history() != nullptr);
    tensor = std::move(copy);
  }
  return message;
}

}  // namespace tendril::rpc
