// What the other side of a proof may say: to an acceptor if the first byte is even, else to a dialler.
#include "tendril/rpc/session/proof.h"

#include "fuzz/input.h"
#include "tendril/rpc/error.h"

using namespace tendril::rpc;

namespace {

/// The next message of the proof, as who reads it from a socket would take it.
std::span<const std::byte> next(tendril::fuzz::Input& input) {
  tendril::fuzz::Input ahead = input;
  const auto size = proof_size(ahead.bytes(kProofPrefixBytes));
  if (size) tendril::fuzz::require(*size <= kMaxProofBytes);
  return input.bytes(size.value_or(0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  const bool dials = (input.number<uint8_t>() & 1) != 0;
  Proof::Nonce mine;
  mine.fill(std::byte(dials ? 1 : 2));
  // The key of the golden conversation in tests/rpc/data, so that inputs can be right.
  Proof proof(SharedKey(Bytes(32, std::byte{7})), dials ? Proof::Role::dialler : Proof::Role::acceptor, mine);
  try {
    if (dials) {
      proof.challenge();
      proof.check_answer(next(input));
      proof.seal({});
    } else {
      proof.answer(next(input));
    }
    while (!input.empty()) {
      const auto message = input.part();
      proof.check(message, input.bytes(kTagBytes));
    }
  } catch (const MessageError&) {
  } catch (const ProofError&) {
  }
  return 0;
}
