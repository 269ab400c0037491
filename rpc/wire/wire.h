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

/// Frames: messages as bytes (docs/wire.md says which byte is what). Nothing here does I/O.
namespace tendril::rpc {

inline constexpr uint8_t kWireVersion = 0;
inline constexpr std::size_t kFrameHeaderBytes = 104;
inline constexpr std::size_t kTensorAlignment = 64;  ///< of each tensor's elements, from the frame's first byte
/// A longer request or reply is sent in parts of this size, and other frames between them (transport/outgoing.h).
inline constexpr std::size_t kMaxPartBytes = 256 << 10;
/// Bytes that a request or reply between parts may have, and bytes of tensors that another frame may: so that nobody
/// has memory for two large ones.
inline constexpr uint64_t kMaxBytesBetweenParts = 1 << 20;

/// Every worker takes payloads of at least so many bytes: what cannot be refused (an error, a control message) is made
/// to fit. Who states less is not connected.
inline constexpr uint64_t kMinPayloadBytes = 4096;

struct ConstBuffer {
  const void* data;
  std::size_t size;
};
struct MutableBuffer {
  void* data = nullptr;
  std::size_t size = 0;
};

/// A message on its way out: its frame as a list of buffers that point into the message's own memory, so that tensors'
/// elements are not copied. Of the message it keeps the arguments, its tensors' memory (not their histories), and who
/// it is. Not thread-safe. The elements must not change until the frame has been written,
/// or the elements have been copied (SentTensors).
///
/// A view travels without the rest of its storage. A tensor whose elements fill a block without gaps in any order of
/// its dimensions (a transpose, say) goes as that block with its strides; broadcast dimensions (stride 0) go once;
/// anything else is packed first, in the order of its strides.
class Frame {
 public:
  /// Takes the message's arguments or result (its payload). Throws MessageError if the message exceeds the limits or
  /// holds a tensor that is not on the CPU.
  explicit Frame(Message&& message, const Limits& limits = {}) : Frame(message, std::move(message.payload), limits) {}
  explicit Frame(const Message& message, const Limits& limits = {}) : Frame(message, Bytes(message.payload), limits) {}
  Frame(Frame&&) noexcept = default;
  Frame& operator=(Frame&&) noexcept = default;

  std::size_t size() const noexcept { return size_; }
  MessageKind kind() const noexcept { return kind_; }
  uint64_t call_id() const noexcept { return call_id_; }
  uint8_t depth() const noexcept { return depth_; }
  bool brings_references() const noexcept { return brings_references_; }
  /// Writes into the header how many frames of the other direction have been received, modulo 2^32. Before the frame's
  /// first byte leaves; again when it leaves once more.
  void acknowledge(uint32_t received) noexcept;
  /// Says in the header that the rest comes in parts. Before the frame's first byte leaves.
  void announce_parts() noexcept;
  /// It is a large request or reply, which leaves in parts (transport/outgoing.h).
  bool goes_in_parts() const noexcept {
    // Others are short, or must keep their order.
    return size_ > kMaxPartBytes && (kind_ == MessageKind::request || kind_ == MessageKind::reply);
  }
  /// False: elements were changed in place since the frame was made, so it would hold something else if it left now.
  bool unchanged() const noexcept;
  /// It was to be sent again, and never is: the receiver has not seen it.
  void recall() noexcept {
    if (lending_) lending_->recalled();
  }
  /// Hands the tensors' elements to the call that it is the request of, under the link's lock. They are copied if the
  /// call has ended already.
  void share_tensors();
  /// Fills `out` with the frame's bytes from offset `from` on; returns how many buffers were filled. Buffers stay valid
  /// until the frame is moved or destroyed.
  std::size_t gather(std::size_t from, std::span<ConstBuffer> out) const noexcept;

 private:
  Frame(const Message& message, Bytes&& payload, const Limits& limits);

  MessageKind kind_;
  uint8_t depth_;
  bool brings_references_;
  uint32_t unacknowledged_ = 0;  // the checksum of what comes before the count of frames received
  uint64_t call_id_;
  std::array<std::byte, kFrameHeaderBytes> header_;
  Bytes metadata_;  // extension, tensor descriptors, fork descriptors
  Bytes payload_;
  std::vector<SentTensors::Block> blocks_;     // until they are shared
  std::shared_ptr<SentTensors> sent_tensors_;  // null: not shared
  std::shared_ptr<Lending> lending_;
  std::size_t size_ = 0;
};

/// The header of a part: so many bytes of the frame that is sent in parts follow. `acknowledged`, of the last part,
/// stands for the frame's own (Frame::acknowledge).
std::array<std::byte, kFrameHeaderBytes> part_header(std::size_t bytes, uint32_t acknowledged) noexcept;

/// Bytes coming in: says where the next ones belong, so that tensors' elements are received straight into their
/// storage, and hands out the messages they make, in the order in which their last bytes come. Not thread-safe.
///
///     for (;;) {
///       while (reader.next(message)) handle(std::move(message));
///       reader.commit(readv(socket, reader.prepare()));
///     }
///
/// `next` throws MessageError for bytes that are no frame; the reader is then of no further use. It keeps two
/// unfinished messages at most: one that comes in parts, and one between them.
class FrameReader {
 public:
  explicit FrameReader(const Limits& limits = {});

  /// Where the next bytes go, in this order; never empty. Valid until the next call of any member.
  std::span<const MutableBuffer> prepare();
  /// `bytes` were put there.
  void commit(std::size_t bytes);
  /// Takes the next complete message, if there is one.
  bool next(Message& message);
  /// True between frames: the peer may end the connection here without having lost a message.
  bool idle() const noexcept { return now_ == Comes::header && !in_parts_ && begin_ == end_ && !failed_; }

 private:
  enum class Comes { header, whole, part };  ///< next
  enum class Phase { metadata, payload, tensors };
  struct Header {
    uint32_t extension, tensor_descriptors, tensors, references;
    uint64_t payload, tensor_bytes;
    std::size_t metadata() const noexcept;
    std::size_t body() const noexcept { return metadata() + payload + tensor_bytes; }
  };
  /// A frame of which the header has come.
  struct Unfinished {
    Phase phase = Phase::metadata;
    Header header{};
    Bytes metadata;
    Message message;
    std::vector<MutableBuffer> missing;  // what the phase still wants, from next_missing on
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
  Comes now_ = Comes::header;
  std::size_t left_ = 0;  // bytes until the next header
  Unfinished whole_, in_parts_frame_;
  bool in_parts_ = false;        // in_parts_frame_ has begun
  std::size_t unannounced_ = 0;  // its bytes that are in no part yet
  std::array<MutableBuffer, kMaxBuffers> prepared_;
};

/// What the receiver of this message would get, without bytes in between: tensors are copied, laid out as a frame would
/// lay them out; references are handed over. For calls of a worker to itself.
Message looped_back(Message message);

/// CRC-32C (Castagnoli), as in RFC 3720: reflected polynomial 0x82F63B78, initial value and final xor all ones.
/// `before`: the checksum of the bytes before these, to go on from.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0) noexcept;

}  // namespace tendril::rpc

TENDRIL_API_END
