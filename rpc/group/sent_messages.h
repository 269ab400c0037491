#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// A message that one end of a connection sends: a frame, or the hello before the first frame.
struct SentMessage {
  uint64_t number = 0;  ///< counts the messages of this direction: 1, 2, 3, ...
  /// "request", "reply" and so on; "hello"; "bytes" if the bytes are not recognized, or until they are.
  std::string kind = "bytes";
  std::string text;  ///< contents of an error, a group message or a hello
  uint64_t call_id = 0, function = 0;
  uint64_t bytes = 0;           ///< sent so far; once the header is complete, in total
  uint64_t begin = 0, end = 0;  ///< offsets in the stream; `end` is 0 until it is known
};

/// Finds the messages in the bytes that one end of a connection sends. Does not throw if it cannot recognize bytes;
/// from there on, each piece is a message of kind "bytes". Takes no lock and reads no clock, so that it can observe a
/// simulation without changing it. Not thread-safe.
class SentMessages {
 public:
  using Changed = std::function<void(const SentMessage&)>;
  /// Calls `changed` for each message that begins in these bytes or about which they reveal more.
  void add(std::string_view bytes, const Changed& changed);
  uint64_t sent() const noexcept { return sent_; }  ///< bytes so far

 private:
  static constexpr std::size_t kPrefixBytes = 12;
  static constexpr std::size_t kMostKept = 64 << 10;

  std::size_t take(std::string_view bytes, const Changed& changed);
  std::size_t take_head(std::string_view bytes, const Changed& changed);
  void recognize_prefix(uint64_t begin);
  void recognize_frame();
  void body_ended(const Changed& changed);
  void raw() noexcept { raw_ = true; }

  bool raw_ = false;
  uint64_t sent_ = 0, begun_ = 0;
  std::string head_;  // the first bytes of a message, until they are recognized
  std::size_t head_bytes_ = kPrefixBytes;
  bool in_body_ = false, is_part_ = false;
  uint64_t left_ = 0;  // bytes of the body, or of the part, that have not been sent
  struct Unfinished {
    SentMessage message;
    std::string kept;  // the beginning of the body
    uint64_t metadata = 0;
    uint64_t unannounced = 0;  // bytes of the body for which no part has begun
  };
  Unfinished now_, in_parts_;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
