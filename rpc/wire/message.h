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

class RRefState;  // rref_state.h: what the RRef<T> handles of this process share

enum class MessageKind : uint8_t {
  request = 1,
  reply = 2,
  error = 3,
  cancel = 4,
  control = 5,
  ping = 6,
  pong = 7,
  goodbye = 8,
  credit = 9,        ///< flow_control.h; links keep it to themselves
  acknowledge = 10,  ///< nothing but its header's count of frames received; links keep it to themselves
  group = 11,        ///< between rank 0 and the others: joining, gathering, leaving (launch/rendezvous.h)
  lending = 13,      ///< device memory that one side lends to the other (lending_message.h); 12: wire_layout.h
};

/// Bits of Message::flags. Unknown bits are an error.
enum MessageFlags : uint8_t {
  kCreatesReference = 1,  ///< of a request: the result stays here, under the RRefId of the first reference
  kKnownFlags = 1
};

using Bytes = std::vector<std::byte>;

/// How a reference travels: a new fork of it, made by the sender for the receiver of the message; or, of the object
/// that a call is made on, the sender's own. docs/wire.md.
struct ForkDescriptor {
  enum Kind : uint8_t {
    fork = 0,      ///< an argument or a result
    create = 1,    ///< of a request with kCreatesReference: the reference that the call makes
    receiver = 2,  ///< the first of a request: the object that it is a call on, by the fork that the caller has of it
  };
  Kind kind = fork;
  WorkerId owner = -1;
  uint64_t owner_incarnation = 0;
  RRefId rref = {};
  ForkId fork_id = {};

  friend bool operator==(const ForkDescriptor&, const ForkDescriptor&) = default;
};

/// Whether a message brings its receiver references of its own.
inline bool brings_references(const std::vector<ForkDescriptor>& forks) noexcept {
  return !forks.empty() && (forks.size() > 1 || forks.front().kind != ForkDescriptor::receiver);
}

/// Where a tensor of a message was on its sender, and where it is to be on its receiver.
struct Placement {
  Device from, to;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Where the elements of a tensor are that do not travel in the frame: in device memory of the sender's, which the
/// receiver has opened (session/lender.h).
struct LentPlace {
  uint32_t segment = 0;  ///< the sender's number for it
  uint64_t offset = 0;   ///< in the segment
  uint64_t id = 0;       ///< what the receiver gives back, 1, 2, 3, ...; 0: not lent

  friend bool operator==(const LentPlace&, const LentPlace&) = default;
};

/// Keeps account of a message's lent tensors; its destructor says that the message is gone. Its frame, and the message
/// itself, hold it. Any thread.
class Lending {
 public:
  virtual ~Lending() = default;
  virtual void leaves() noexcept {}    ///< of one that is sent: the receiver may see the frame from here on
  virtual void recalled() noexcept {}  ///< after all, it certainly does not
};

/// The elements of a request's tensors, which its frame refers to, from when a link has taken the frame. The link's
/// lock guards them. The caller may change its tensors once the call has ended, so elements that have not been written
/// by then are copied (Link::call_ended).
struct SentTensors {
  struct Block {
    const void* data;
    std::size_t bytes;
    std::size_t padding;  // zeros before it
    Ref<Storage> memory;  // the tensor's own, or where it was packed
    uint32_t version;     // of `memory` when the frame was made
  };

  void copy();  ///< copies the elements into memory of the frame alone

  std::vector<Block> blocks;
  bool call_ended = false;
};

/// A message in memory; what a frame (wire.h) carries. Moves, never copies tensors' elements.
struct Message {
  MessageKind kind = MessageKind::request;
  uint8_t flags = 0;
  uint8_t depth = 0;        ///< of a request: CallContext::depth where the call was made
  uint64_t call_id = 0;     ///< chosen by the caller's agent: 1, 2, 3, ... for each session; replies repeat it
  uint64_t function = 0;    ///< of a request: FunctionId
  uint64_t timeout_us = 0;  ///< of a request: time left when it was sent; 0 = none
  uint64_t autograd_context = 0;
  uint64_t autograd_message = 0;  ///< set by the autograd hook
  uint64_t trace_id = 0, span_id = 0;
  uint64_t frame_bytes = 0;          ///< of a received message: how long its frame was
  uint32_t acknowledged = 0;         ///< of a received message: how many frames its sender had received (sent_frames.h)
  Bytes extension = {};              ///< opaque to rpc/: travels with nested calls
  Bytes payload = {};                ///< arguments or result as an archive; error: type and text
  std::vector<Tensor> tensors = {};  ///< out of band, in archive order
  /// Of a received message: for each tensor, whether it required a gradient at the sender. The tensors themselves have
  /// no history; the message hook gives them one. Empty in a message that has not travelled.
  std::vector<bool> requires_grad = {};
  /// For each tensor. Empty: all go from CPU to CPU. Of a message that leaves: filled in where it leaves, by the
  /// workers' device maps, unless the sender has said where to. Between workers all tensors are on the CPU.
  std::vector<Placement> placements = {};
  /// For each tensor; empty: none is lent. The tensor itself is then of the CPU and has no memory, only its size.
  std::vector<LentPlace> lent = {};
  std::shared_ptr<Lending> lending = {};  ///< where `lent` is not empty
  std::vector<ForkDescriptor> forks =
      {};  ///< out of band, in archive order; made from `references` where a message leaves
  std::vector<std::shared_ptr<RRefState>> references = {};  ///< the handles of this process, in archive order
  std::shared_ptr<SentTensors> sent_tensors = {};           ///< of a request that leaves and has tensors
  /// Of a request that leaves: the first of `references` is the object that it is a call on, and the caller holds it
  /// until the call has ended.
  bool has_receiver = false;
};

}  // namespace tendril::rpc

TENDRIL_API_END
