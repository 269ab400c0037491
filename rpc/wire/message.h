#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tendril/rpc/wire/ids.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class RRefState;  // rref_state.h: the state shared by the RRef<T> handles of this process

enum class MessageKind : uint8_t {
  request = 1,
  reply = 2,
  error = 3,
  cancel = 4,
  control = 5,
  ping = 6,
  pong = 7,
  goodbye = 8,
  credit = 9,        ///< flow_control.h; handled by links
  acknowledge = 10,  ///< only its header's count of received frames matters; handled by links
  group = 11,        ///< between rank 0 and the others: joining, gathering, leaving (group/rendezvous.h)
  lending = 13,      ///< device memory that one side lends to the other (lending_message.h); 12: wire_layout.h
};

/// Bits of Message::flags. Unknown bits are an error.
enum MessageFlags : uint8_t {
  kCreatesReference = 1,  ///< in a request: the result stays at the callee, under the RRefId of the first reference
  kKnownFlags = 1
};

using Bytes = std::vector<std::byte>;

/// A reference in a message: a new fork, made by the sender for the receiver; or, for the object that a call is made
/// on, the sender's own fork. docs/wire.md.
struct ForkDescriptor {
  enum Kind : uint8_t {
    fork = 0,      ///< an argument or a result
    create = 1,    ///< in a request with kCreatesReference: the reference that the call creates
    receiver = 2,  ///< only first in a request: the caller's own fork of the object that the call is made on
  };
  Kind kind = fork;
  WorkerId owner = -1;
  uint64_t owner_incarnation = 0;
  RRefId rref = {};
  ForkId fork_id = {};

  friend bool operator==(const ForkDescriptor&, const ForkDescriptor&) = default;
};

/// Whether a message gives new references to its receiver.
inline bool brings_references(const std::vector<ForkDescriptor>& forks) noexcept {
  return !forks.empty() && (forks.size() > 1 || forks.front().kind != ForkDescriptor::receiver);
}

/// The device of a tensor at the sender, and the one that it goes to at the receiver.
struct Placement {
  Device from, to;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// The place of a tensor's elements that are not in the frame, but in device memory of the sender, which the receiver
/// has opened (device/lender.h).
struct LentPlace {
  uint32_t segment = 0;  ///< the sender's number for the segment
  uint64_t offset = 0;   ///< bytes from the start of the segment
  uint64_t id = 0;       ///< returned by the receiver after use: 1, 2, 3, ...; 0: not lent

  friend bool operator==(const LentPlace&, const LentPlace&) = default;
};

/// Tracks the lent tensors of a message. The message and its frame hold it, so its destructor runs when both are gone.
/// Thread-safe.
class Lending {
 public:
  virtual ~Lending() = default;
  virtual void leaves() noexcept {}    ///< the receiver may see the frame from here on
  virtual void recalled() noexcept {}  ///< the receiver has not seen the frame, and never will
};

/// The elements of a request's tensors, to which its frame refers, once a link has accepted the frame. Guarded by the
/// link's lock. The caller may change its tensors once the call has ended, so elements not written by then are copied
/// (Link::call_ended).
struct SentTensors {
  struct Block {
    const void* data;
    std::size_t bytes;
    std::size_t padding;  // zeros before it
    Ref<Storage> memory;  // the tensor's storage, or the one it was packed into
    uint32_t version;     // version of `memory` when the frame was made
  };

  void copy();  ///< copies the elements into separate memory

  std::vector<Block> blocks;
  bool call_ended = false;
};

/// A message in memory, the contents of a frame (wire.h). Copying or moving it never copies tensors' elements.
struct Message {
  MessageKind kind = MessageKind::request;
  uint8_t flags = 0;
  uint8_t depth = 0;        ///< in a request: CallContext::depth where the call was made
  uint64_t call_id = 0;     ///< chosen by the caller's agent: 1, 2, 3, ... in each session; replies repeat it
  uint64_t function = 0;    ///< in a request: FunctionId
  uint64_t timeout_us = 0;  ///< in a request: time left until its deadline when it was sent; 0 = no deadline
  uint64_t autograd_context = 0;
  uint64_t autograd_message = 0;  ///< set by the autograd hook
  uint64_t trace_id = 0, span_id = 0;
  uint64_t frame_bytes = 0;          ///< in a received message: the size of its frame
  uint32_t acknowledged = 0;         ///< in a received message: how many frames its sender had received (sent_frames.h)
  Bytes extension = {};              ///< opaque to rpc/; passed on with nested calls
  Bytes payload = {};                ///< arguments or result as an archive; error: type and text
  std::vector<Tensor> tensors = {};  ///< out of band, in archive order
  /// In a received message: for each tensor, whether it required a gradient at the sender. The tensors themselves have
  /// no history; the message hook gives them one. Empty in a message that has not been received.
  std::vector<bool> requires_grad = {};
  /// One for each tensor. Empty: all go from CPU to CPU. If the sender has not set them, they are filled in from the
  /// workers' device maps when the message leaves. Between workers all tensors are on the CPU.
  std::vector<Placement> placements = {};
  /// One for each tensor; empty: no tensor is lent. A lent tensor is a CPU tensor with sizes, but without memory.
  std::vector<LentPlace> lent = {};
  std::shared_ptr<Lending> lending = {};   ///< set if `lent` is not empty
  std::vector<ForkDescriptor> forks = {};  ///< out of band, in archive order; made from `references` when sending
  std::vector<std::shared_ptr<RRefState>> references = {};  ///< the handles of this process, in archive order
  std::shared_ptr<SentTensors> sent_tensors = {};           ///< in a request to be sent that has tensors
  /// In a request to be sent: the call is made on the first of `references`, which the caller holds until the call has
  /// ended.
  bool has_receiver = false;
};

}  // namespace tendril::rpc

TENDRIL_API_END
