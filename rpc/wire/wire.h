#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/limits.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Frames: messages as bytes (docs/wire.md describes the format). Nothing here does I/O.
namespace tendril::rpc {

inline constexpr uint8_t kWireVersion = 0;
inline constexpr std::size_t kFrameHeaderBytes = 104;
inline constexpr std::size_t kTensorAlignment = 64;  ///< of each tensor's elements, relative to the frame's first byte
/// A longer request or reply is sent in parts of this size, with other frames between them (transport/outgoing.h).
inline constexpr std::size_t kMaxPartBytes = 256 << 10;
/// Limit on the bytes of a request or reply between parts, and on the bytes of tensors of other frames there, so that
/// no receiver needs memory for two large frames.
inline constexpr uint64_t kMaxBytesBetweenParts = 1 << 20;

/// Every worker must accept payloads of this size: messages that cannot be refused (errors, control messages) are made
/// to fit. A worker that states a lower limit cannot connect.
inline constexpr uint64_t kMinPayloadBytes = 4096;
/// The smallest window for requests (transport/flow_control.h) that a worker may announce, in bytes.
inline constexpr uint64_t kMinRequestWindow = 64 << 10;

struct ConstBuffer {
  const void* data;
  std::size_t size;
};
struct MutableBuffer {
  void* data = nullptr;
  std::size_t size = 0;
};

/// The frame of an outgoing message, as a list of buffers that point into the message's own memory, so that tensors'
/// elements are not copied. Keeps the message's arguments, its tensors' memory (not their histories) and its identity.
/// Not thread-safe. The elements must not change until the frame has been written or they have been copied
/// (SentTensors).
///
/// A view is sent without the rest of its storage. A tensor whose elements fill a block without gaps, in any order of
/// its dimensions (such as a transpose), is sent as that block with its strides; broadcast dimensions (stride 0) are
/// sent once; any other tensor is packed first, in the order of its strides.
class Frame {
 public:
  /// Moves the arguments or result (the payload) out of the message. Throws MessageError if the message exceeds the
  /// limits or holds a tensor that is not on the CPU.
  explicit Frame(Message&& message, const Limits& limits = {}) : Frame(message, std::move(message.payload), limits) {}
  explicit Frame(const Message& message, const Limits& limits = {}) : Frame(message, Bytes(message.payload), limits) {}
  Frame(Frame&&) noexcept = default;
  Frame& operator=(Frame&&) noexcept = default;

  std::size_t size() const noexcept { return size_; }
  MessageKind kind() const noexcept { return kind_; }
  uint64_t call_id() const noexcept { return call_id_; }
  uint8_t depth() const noexcept { return depth_; }
  bool brings_references() const noexcept { return brings_references_; }
  /// Writes into the header how many frames of the other direction have been received, modulo 2^32. Call it before the
  /// frame's first byte leaves, and again before it is sent again.
  void acknowledge(uint32_t received) noexcept;
  /// Marks in the header that the rest comes in parts. Call it before the frame's first byte leaves.
  void announce_parts() noexcept;
  /// Whether it is a large request or reply, which leaves in parts (transport/outgoing.h).
  bool goes_in_parts() const noexcept {
    // Other kinds are short, or must keep their order.
    return size_ > kMaxPartBytes && (kind_ == MessageKind::request || kind_ == MessageKind::reply);
  }
  /// Whether no elements were changed in place since the frame was made. Otherwise it would now send other values.
  bool unchanged() const noexcept;
  /// Reports that the receiver has not seen the frame, which will not be sent again.
  void recall() noexcept {
    if (lending_) lending_->recalled();
  }
  /// Shares the tensors' elements with the call that this is the request of. Copies them if the call has already ended.
  /// Call it under the link's lock.
  void share_tensors();
  /// Fills `out` with the frame's bytes from offset `from` on; returns how many buffers were filled. They stay valid
  /// until the frame is moved or destroyed.
  std::size_t gather(std::size_t from, std::span<ConstBuffer> out) const noexcept;

 private:
  Frame(const Message& message, Bytes&& payload, const Limits& limits);

  MessageKind kind_;
  uint8_t depth_;
  bool brings_references_;
  uint32_t unacknowledged_ = 0;  // checksum of the header before its count of received frames
  uint64_t call_id_;
  std::array<std::byte, kFrameHeaderBytes> header_;
  Bytes metadata_;  // extension, tensor descriptors, fork descriptors
  Bytes payload_;
  std::vector<SentTensors::Block> blocks_;     // empty once they are shared
  std::shared_ptr<SentTensors> sent_tensors_;  // null: never shared
  std::shared_ptr<Lending> lending_;
  std::size_t size_ = 0;
};

/// The header of a part: `bytes` bytes of the frame that is sent in parts follow. `acknowledged` of the last part
/// replaces the frame's own (Frame::acknowledge).
std::array<std::byte, kFrameHeaderBytes> part_header(std::size_t bytes, uint32_t acknowledged) noexcept;

/// Reads messages from incoming bytes. Provides buffers for the next bytes, so that tensors' elements are received
/// directly into their storage, and returns messages in the order in which their last bytes arrive. Not thread-safe.
///
///     for (;;) {
///       while (reader.next(message)) handle(std::move(message));
///       reader.commit(readv(socket, reader.prepare()));
///     }
///
/// `next` throws MessageError for bytes that do not form a frame; the reader cannot be used any more after that. It
/// keeps at most two unfinished messages: one that comes in parts, and one between the parts.
class FrameReader {
 public:
  explicit FrameReader(const Limits& limits = {});

  /// Returns buffers for the next bytes, to be filled in this order; never empty. Valid until the next call of any
  /// member.
  std::span<const MutableBuffer> prepare();
  /// Records that `bytes` bytes have been put there.
  void commit(std::size_t bytes);
  /// Returns whether there is a complete message, and moves it to `message`.
  bool next(Message& message);
  /// Whether the reader is between frames: if the connection ends here, no message is lost.
  bool idle() const noexcept { return now_ == Incoming::header && !in_parts_ && begin_ == end_ && !failed_; }

 private:
  enum class Incoming { header, whole, part };  ///< kind of the next bytes
  enum class Phase { metadata, payload, tensors };
  struct Header {
    uint32_t extension, tensor_descriptors, tensors, references;
    uint64_t payload, tensor_bytes;
    std::size_t metadata() const noexcept;
    std::size_t body() const noexcept { return metadata() + payload + tensor_bytes; }
  };
  /// A frame whose header has arrived.
  struct Unfinished {
    Phase phase = Phase::metadata;
    Header header{};
    Bytes metadata;
    Message message;
    std::vector<MutableBuffer> missing;  // buffers that the phase must still fill, from next_missing on
    std::size_t next_missing = 0;
    std::array<std::byte, kTensorAlignment> padding;  // received and ignored

    void begin();
    void expect(void* data, std::size_t size);
    void expect_more(Bytes& of, std::size_t total);
    void expect_tensors();
    void parse_metadata(const Limits& limits);
    bool phase_complete(const Limits& limits);
  };

  bool parse_header(Message& bare);
  void begin_part(const std::byte* header);
  void fill_from_buffer(Unfinished& frame);

  static constexpr std::size_t kBufferBytes = 4 << 10;
  static constexpr std::size_t kMaxBuffers = 16;

  Limits limits_;
  bool failed_ = false;
  std::unique_ptr<std::byte[]> buffer_;  // received, not yet consumed: [begin_, end_)
  std::size_t begin_ = 0, end_ = 0;
  Incoming now_ = Incoming::header;
  std::size_t left_ = 0;  // bytes until the next header
  Unfinished whole_, in_parts_frame_;
  bool in_parts_ = false;        // in_parts_frame_ has begun
  std::size_t unannounced_ = 0;  // its bytes not yet announced by a part
  std::array<MutableBuffer, kMaxBuffers> prepared_;
};

/// Returns the message that its receiver would get, without encoding it: tensors are copied, with the layout that a
/// frame would give them; references are passed on. For calls of a worker to itself.
Message looped_back(Message message);

/// CRC-32C (Castagnoli), as in RFC 3720: reflected polynomial 0x82F63B78, initial value and final xor all ones.
/// `before` is the checksum of the preceding bytes, which is continued.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0) noexcept;

}  // namespace tendril::rpc

TENDRIL_API_END
