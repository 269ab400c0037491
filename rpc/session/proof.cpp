#include "tendril/rpc/session/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/thread.h"
#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc {
namespace {

constexpr uint8_t kPurpose = 1;  // of the connection: the only one there is

constexpr char kProofMagic[8] = {'T', 'E', 'N', 'D', 'R', 'I', 'L', 'K'};
constexpr std::size_t kChallengeBytes = kProofPrefixBytes + 4 + kNonceBytes;
constexpr std::size_t kAnswerBytes = kProofPrefixBytes + kNonceBytes + kTagBytes;

/// A message's first bytes; the rest is left to the caller.
Bytes begin_proof(ProofKind kind, std::size_t size) {
  Bytes message(size);
  std::memcpy(message.data(), kProofMagic, sizeof kProofMagic);
  std::byte* to = put(message.data() + sizeof kProofMagic, kProofVersion);
  to = put(to, static_cast<uint8_t>(kind));
  put(to, static_cast<uint16_t>(size - kProofPrefixBytes));
  return message;
}

ProofKind kind_of(std::span<const std::byte> message) {
  const auto size = proof_size(message);
  TENDRIL_CHECK_AS(MessageError, size && *size == message.size(), "bad proof: it is cut off");
  return static_cast<ProofKind>(get<uint8_t>(message.data() + sizeof kProofMagic + 1));
}

}  // namespace

bool is_proof(std::span<const std::byte> prefix) noexcept {
  return prefix.size() >= sizeof kProofMagic && std::memcmp(prefix.data(), kProofMagic, sizeof kProofMagic) == 0;
}

std::optional<std::size_t> proof_size(std::span<const std::byte> start) {
  const std::size_t count = std::min(start.size(), sizeof kProofMagic);
  if (count > 0 && std::memcmp(start.data(), kProofMagic, count) != 0) {
    const bool hello =
        count == sizeof kProofMagic && std::memcmp(start.data(), kProofMagic, sizeof kProofMagic - 1) == 0;
    constexpr char kTlsHandshake[] = {0x16, 0x03};
    const bool tls = count >= 2 && std::memcmp(start.data(), kTlsHandshake, 2) == 0;
    throw MessageError(hello ? "bad proof: a Tendril worker that proves no key (of another version?)"
                       : tls ? "bad proof: the other side speaks TLS, and this worker proves a shared key: give all "
                               "workers certificates, or none"
                             : "bad proof: it does not start with \"TENDRILK\": the other side is not a Tendril "
                               "worker");
  }
  if (start.size() < kProofPrefixBytes) return std::nullopt;
  const auto version = get<uint8_t>(start.data() + sizeof kProofMagic);
  TENDRIL_CHECK_AS(MessageError, version == kProofVersion, "bad proof: version ", int{version}, ", this side speaks ",
                   int{kProofVersion}, ": build all workers from the same release");
  const auto length = get<uint16_t>(start.data() + sizeof kProofMagic + 2);
  TENDRIL_CHECK_AS(MessageError, length <= kMaxProofTextBytes, "bad proof: ", length, " bytes announced, at most ",
                   kMaxProofTextBytes);
  return kProofPrefixBytes + length;
}

Bytes encode_proof_refusal(const std::string& text) {
  const std::size_t size = std::min(text.size(), kMaxProofTextBytes);
  Bytes message = begin_proof(ProofKind::refusal, kProofPrefixBytes + size);
  std::memcpy(message.data() + kProofPrefixBytes, text.data(), size);
  return message;
}

std::optional<std::string> proof_refusal(std::span<const std::byte> message) {
  if (kind_of(message) != ProofKind::refusal) return std::nullopt;
  std::string text;
  for (const std::byte byte : message.subspan(kProofPrefixBytes)) {
    const auto c = static_cast<char>(byte);
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

Proof::Proof(SharedKey key, Role role, const Nonce& nonce) : key_(std::move(key)), role_(role), nonce_(nonce) {
  TENDRIL_CHECK_AS(UsageError, key_, "a proof needs a key");
}

Proof::Nonce Proof::random_nonce() {
  Nonce nonce;
  detail::random_bytes(std::as_writable_bytes(std::span(nonce)));
  return nonce;
}

void Proof::expect(bool good, const char* what) const { TENDRIL_CHECK_AS(ProofError, good, "bad proof: ", what); }

void Proof::differ() const {
  throw ProofError("the other side does not hold this worker's key (" + key_.origin() + ")");
}

Bytes Proof::challenge() {
  expect(role_ == Role::dialler && state_ == State::start, "a challenge out of turn");
  Bytes message = begin_proof(ProofKind::challenge, kChallengeBytes);
  std::byte* to = put(message.data() + kProofPrefixBytes, kPurpose);
  std::memcpy(to + 3, nonce_.data(), kNonceBytes);
  absorb(Role::dialler, message);
  state_ = State::challenged;
  return message;
}

Bytes Proof::answer(std::span<const std::byte> challenge) {
  expect(role_ == Role::acceptor && state_ == State::start, "an answer out of turn");
  state_ = State::failed;
  TENDRIL_CHECK_AS(MessageError,
                   kind_of(challenge) == ProofKind::challenge && challenge.size() == kChallengeBytes &&
                       std::all_of(&challenge[kProofPrefixBytes + 1], &challenge[kProofPrefixBytes + 4],
                                   [](std::byte b) { return b == std::byte{0}; }),
                   "bad proof: expected a challenge");
  const auto purpose = get<uint8_t>(&challenge[kProofPrefixBytes]);
  TENDRIL_CHECK_AS(ProofError, purpose == kPurpose, "bad proof: it is for another purpose (", int{purpose}, ") than ",
                   int{kPurpose});
  absorb(Role::dialler, challenge);
  Bytes message = begin_proof(ProofKind::answer, kAnswerBytes);
  std::memcpy(&message[kProofPrefixBytes], nonce_.data(), kNonceBytes);
  absorb(Role::acceptor, std::span(message).first(kAnswerBytes - kTagBytes));
  const Tag tag = tag_of(Role::acceptor);
  std::memcpy(&message[kAnswerBytes - kTagBytes], tag.data(), kTagBytes);
  state_ = State::open;
  return message;
}

void Proof::check_answer(std::span<const std::byte> answer) {
  expect(role_ == Role::dialler && state_ == State::challenged, "an answer out of turn");
  state_ = State::failed;
  if (const auto text = proof_refusal(answer)) throw ProofError("it refused the connection: " + *text);
  TENDRIL_CHECK_AS(MessageError, kind_of(answer) == ProofKind::answer && answer.size() == kAnswerBytes,
                   "bad proof: expected an answer");
  absorb(Role::acceptor, answer.first(kAnswerBytes - kTagBytes));
  const Tag tag = tag_of(Role::acceptor);
  if (CRYPTO_memcmp(tag.data(), &answer[kAnswerBytes - kTagBytes], kTagBytes) != 0) differ();
  state_ = State::open;
}

Proof::Tag Proof::seal(std::span<const std::byte> message) {
  expect(state_ == State::open, "a message out of turn");
  absorb(role_, message);
  return tag_of(role_);
}

void Proof::check(std::span<const std::byte> message, std::span<const std::byte> tag) {
  expect(state_ == State::open, "a message out of turn");
  absorb(other(), message);
  const Tag expected = tag_of(other());
  if (tag.size() != kTagBytes || CRYPTO_memcmp(expected.data(), tag.data(), kTagBytes) != 0) {
    state_ = State::failed;
    differ();
  }
}

/// The lengths and speakers go in as well: no two conversations have the same hash.
void Proof::absorb(Role speaker, std::span<const std::byte> message) {
  std::array<std::byte, kTagBytes + 1 + 8> head;
  std::memcpy(head.data(), transcript_.data(), kTagBytes);
  std::byte* to = put(head.data() + kTagBytes, static_cast<uint8_t>(speaker));
  put(to, uint64_t{message.size()});
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  TENDRIL_CHECK_AS(
      RpcError,
      hash && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1 &&
          EVP_DigestUpdate(hash.get(), head.data(), head.size()) == 1 &&
          EVP_DigestUpdate(hash.get(), message.data(), message.size()) == 1 &&
          EVP_DigestFinal_ex(hash.get(), reinterpret_cast<unsigned char*>(transcript_.data()), nullptr) == 1,
      "OpenSSL has no SHA-256");
}

Proof::Tag Proof::tag_of(Role speaker) const {
  constexpr char kLabel[] = "tendril proof 1";  // 15 bytes: no other use of the key begins so
  std::array<std::byte, sizeof kLabel - 1 + 2 + kTagBytes> input;
  std::memcpy(input.data(), kLabel, sizeof kLabel - 1);
  std::byte* to = put(input.data() + sizeof kLabel - 1, kPurpose);
  to = put(to, static_cast<uint8_t>(speaker));
  std::memcpy(to, transcript_.data(), kTagBytes);
  Tag tag;
  TENDRIL_CHECK_AS(RpcError,
                   HMAC(EVP_sha256(), key_.bytes().data(), static_cast<int>(key_.bytes().size()),
                        reinterpret_cast<const unsigned char*>(input.data()), input.size(),
                        reinterpret_cast<unsigned char*>(tag.data()), nullptr) != nullptr,
                   "OpenSSL has no HMAC-SHA256");
  return tag;
}

}  // namespace tendril::rpc
