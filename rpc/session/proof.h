#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tendril/rpc/error.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/wire/message.h"

/// Proof of a shared key, in both directions, on a connection over which nothing has been said yet (docs/wire.md). No
/// sockets and no clock: bytes in, bytes out.
///
///     dialler                                   acceptor
///     challenge: a nonce                ->
///                                       <-      answer: a nonce, and a tag over both nonces
///     a first message, and its tag      ->
///                                       <-      a message, and its tag
///
/// A tag is an HMAC-SHA256 under the key over who makes it (dialler or acceptor) and a hash of all that both have said
/// so far, the tagged message included. So what was recorded elsewhere does not fit (the nonces differ), nor does what
/// one side said when it is sent back to it (the roles differ). The acceptor reads nothing of a message before its tag
/// is found to be right, and tells a stranger nothing but that this is Tendril and which version.
namespace tendril::rpc {

inline constexpr uint8_t kProofVersion = 1;
inline constexpr std::size_t kNonceBytes = 32, kTagBytes = 32;
inline constexpr std::size_t kProofPrefixBytes = 12;
inline constexpr std::size_t kMaxProofTextBytes = 256;
inline constexpr std::size_t kMaxProofBytes = kProofPrefixBytes + kMaxProofTextBytes;

enum class ProofKind : uint8_t {
  challenge = 1,  ///< 1, 3 zero bytes, a nonce
  answer = 2,     ///< a nonce, a tag
  refusal = 3,    ///< text
};

/// How many bytes the message of this exchange that starts with these has altogether; nothing while fewer than
/// kProofPrefixBytes are there. Throws MessageError for bytes that begin none, of another version, or too long.
std::optional<std::size_t> proof_size(std::span<const std::byte> start);
/// Whether these 12 bytes begin a message of this exchange (rather than what follows it).
bool is_proof(std::span<const std::byte> prefix) noexcept;
/// A refusal. Whatever the text says, a stranger is told it.
Bytes encode_proof_refusal(const std::string& text);
/// The text of a refusal, made printable; nothing if it is none.
std::optional<std::string> proof_refusal(std::span<const std::byte> message);

/// The other side does not hold this key, or says what it did not say first.
class ProofError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// One side of one connection. After an exception it is of no use. Not thread-safe.
class Proof {
 public:
  enum class Role : uint8_t { dialler = 1, acceptor = 2 };
  using Nonce = std::array<std::byte, kNonceBytes>;
  using Tag = std::array<std::byte, kTagBytes>;

  /// Throws UsageError if the key is empty.
  Proof(SharedKey key, Role role) : Proof(std::move(key), role, random_nonce()) {}
  /// With a nonce that the caller has drawn: for tests.
  Proof(SharedKey key, Role role, const Nonce& nonce);

  /// The dialler's first message.
  Bytes challenge();
  /// The acceptor's answer to it. Throws MessageError, ProofError.
  Bytes answer(std::span<const std::byte> challenge);
  /// The dialler takes the answer. Throws ProofError if it was made without the key (or is a refusal), MessageError.
  void check_answer(std::span<const std::byte> answer);

  /// The tag that has to follow the message, on which this side says it next.
  Tag seal(std::span<const std::byte> message);
  /// Throws ProofError unless the other side made the tag for this message, and for its being the next.
  void check(std::span<const std::byte> message, std::span<const std::byte> tag);

  static Nonce random_nonce();

 private:
  void absorb(Role speaker, std::span<const std::byte> message);
  Tag tag_of(Role speaker) const;
  Role other() const noexcept { return role_ == Role::dialler ? Role::acceptor : Role::dialler; }
  void expect(bool good, const char* what) const;
  [[noreturn]] void differ() const;

  enum class State : uint8_t { start, challenged, open, failed };

  const SharedKey key_;
  const Role role_;
  const Nonce nonce_;
  State state_ = State::start;
  Tag transcript_{};  // a hash of all that was said
};

}  // namespace tendril::rpc
