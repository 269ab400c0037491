#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/message.h"

/// Frames: messages as bytes (docs/wire.md says which byte is what). Nothing here does I/O.
namespace tendril::rpc {

inline constexpr uint8_t kWireVersion = 0;
inline constexpr std::size_t kFrameHeaderBytes = 104;
inline constexpr std::size_t kTensorAlignment = 64;  ///< of each tensor's elements, from the frame's first byte

/// What one message may hold. Checked before it is sent (against the peer's limits) and, from the header, before
/// anything is allocated for a received one.
struct Limits {
  uint64_t max_extension_bytes = 64 << 10;
  uint64_t max_payload_bytes = 256 << 20;
  uint64_t max_tensor_bytes = uint64_t{16} << 30;  ///< all tensors of a message, broadcast dimensions written out
  uint64_t max_tensors = 1 << 16;
  uint64_t max_references = 1 << 16;

  friend bool operator==(const Limits&, const Limits&) = default;
};

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
/// elements are not copied: of tensors it keeps the memory alone, not their histories. Not thread-safe. The elements
/// must not change until the frame has been written.
///
/// A view travels without the rest of its storage. A tensor whose elements fill a block without gaps in any order of
/// its dimensions (a transpose, say) goes as that block with its strides; broadcast dimensions (stride 0) go once;
/// anything else is packed first, in the order of its strides.
class Frame {
 public:
  /// Throws MessageError if the message exceeds the limits or holds a tensor that is not on the CPU.
  explicit Frame(Message message, const Limits& limits = {});
  Frame(Frame&&) noexcept = default;
  Frame& operator=(Frame&&) noexcept = default;

  std::size_t size() const noexcept { return size_; }
  const Message& message() const noexcept { return message_; }  ///< without its tensors
  /// Writes into the header how many frames of the other direction have been received, modulo 2^32. Before the frame's
  /// first byte leaves; again when it leaves once more.
  void acknowledge(uint32_t received) noexcept;
  /// False: elements were changed in place since the frame was made, so it would hold something else if it left now.
  bool unchanged() const noexcept;
  /// Fills `out` with the frame's bytes from offset `from` on; returns how many buffers were filled. Buffers stay valid
  /// until the frame is moved or destroyed.
  std::size_t gather(std::size_t from, std::span<ConstBuffer> out) const noexcept;

 private:
  struct Block {
    const void* data;
    std::size_t bytes;
    std::size_t padding;  // zeros before it
    Ref<Storage> memory;  // the tensor's own, or where it was packed
    uint32_t version;     // of `memory` when the frame was made
  };

  Message message_;
  std::array<std::byte, kFrameHeaderBytes> header_;
  Bytes metadata_;  // extension, tensor descriptors, fork descriptors
  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

/// Bytes coming in: says where the next ones belong, so that tensors' elements are received straight into their
/// storage, and hands out the messages they make. Not thread-safe.
///
///     for (;;) {
///       while (reader.next(message)) handle(std::move(message));
///       reader.commit(readv(socket, reader.prepare()));
///     }
///
/// `next` throws MessageError for bytes that are no frame; the reader is then of no further use.
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
  bool idle() const noexcept { return phase_ == Phase::header && begin_ == end_; }

 private:
  enum class Phase { header, metadata, payload, tensors, failed };
  struct Header {
    uint32_t extension, tensor_descriptors, tensors, references;
    uint64_t payload, tensor_bytes;
  };

  void parse_header();
  void parse_metadata();
  bool part_complete();
  void fill_from_buffer();
  void expect(void* data, std::size_t size);
  void expect_more(Bytes& of, std::size_t total);
  void expect_tensors();
  std::size_t metadata_bytes() const noexcept;

  static constexpr std::size_t kBufferBytes = 4 << 10;
  /// Metadata and payload are given memory in parts of this size, as they come: who only announces them costs nothing.
  static constexpr std::size_t kPartBytes = 1 << 20;
  static constexpr std::size_t kMaxBuffers = 16;

  Limits limits_;
  Phase phase_ = Phase::header;
  std::unique_ptr<std::byte[]> buffer_;  // received, not yet consumed: [begin_, end_)
  std::size_t begin_ = 0, end_ = 0;
  Header header_{};
  Bytes metadata_;
  Message message_;
  std::vector<MutableBuffer> missing_;  // parts of the current phase that still want bytes, from next_missing_ on
  std::size_t next_missing_ = 0;
  std::array<std::byte, kTensorAlignment> padding_;  // received and ignored
  std::array<MutableBuffer, kMaxBuffers> prepared_;
};

/// What the receiver of this message would get, without bytes in between: tensors are copied, laid out as a frame would
/// lay them out; references are handed over. For calls of a worker to itself.
Message looped_back(Message message);

/// CRC-32C (Castagnoli), as in RFC 3720: reflected polynomial 0x82F63B78, initial value and final xor all ones.
uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

}  // namespace tendril::rpc
