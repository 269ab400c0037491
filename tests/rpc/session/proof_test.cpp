// The proof of a shared key: two sides without sockets, and somebody between them.
#include "tendril/rpc/session/proof.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tendril/rpc/error.h"
#include "tests/rpc/messages.h"

BOOST_AUTO_TEST_SUITE(proof)

using namespace tendril::rpc;
using tendril::rpc::testing::bytes_of;
using tendril::rpc::testing::golden;

namespace {

using Role = Proof::Role;

SharedKey key_of_byte(int value) { return SharedKey(Bytes(32, static_cast<std::byte>(value))); }
const SharedKey kKey = key_of_byte(7), kOther = key_of_byte(8);

Proof::Nonce nonce_of(int value) {
  Proof::Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

Proof dialler(const SharedKey& key = kKey) { return Proof(key, Role::dialler); }
Proof acceptor(const SharedKey& key = kKey) { return Proof(key, Role::acceptor); }

/// A conversation as it should be; `between` may change each of its messages on the way.
using Between = std::function<void(int step, Bytes& message)>;
Bytes tagged(Proof& speaker, Bytes message) {
  const Proof::Tag tag = speaker.seal(message);
  message.insert(message.end(), tag.begin(), tag.end());
  return message;
}
void check_tagged(Proof& listener, const Bytes& message) {
  const std::span<const std::byte> all(message);
  const std::size_t tag = std::min(all.size(), kTagBytes);
  listener.check(all.first(all.size() - tag), all.last(tag));
}
void converse(Proof& a, Proof& b, const Between& between) {
  Bytes message = a.challenge();
  between(0, message);
  message = b.answer(message);
  between(1, message);
  a.check_answer(message);
  message = tagged(a, bytes_of("I am the dialler"));
  between(2, message);
  check_tagged(b, message);
  message = tagged(b, bytes_of("I am the acceptor"));
  between(3, message);
  check_tagged(a, message);
}
const Between kNobody = [](int, Bytes&) {};

}  // namespace

BOOST_AUTO_TEST_CASE(two_that_hold_the_key_believe_each_other) {
  Proof a = dialler(), b = acceptor();
  converse(a, b, kNobody);
  for (int i = 0; i < 3; ++i) {  // and go on
    check_tagged(b, tagged(a, bytes_of("more")));
    check_tagged(a, tagged(b, bytes_of("more")));
  }
}

BOOST_AUTO_TEST_CASE(the_exchange_has_the_golden_bytes) {
  Proof a(kKey, Role::dialler, nonce_of(1)), b(kKey, Role::acceptor, nonce_of(2));
  BOOST_TEST((a.challenge() == golden("proof_challenge.bin")));
  const Bytes answer = b.answer(golden("proof_challenge.bin"));
  BOOST_TEST((answer == golden("proof_answer.bin")));
  a.check_answer(answer);
  const Bytes hello = golden("hello.bin");
  BOOST_TEST((tagged(a, hello) == golden("proof_hello.bin")));
  check_tagged(b, golden("proof_hello.bin"));
  BOOST_TEST((encode_proof_refusal("no proof") == golden("proof_refusal.bin")));
  BOOST_TEST(proof_refusal(golden("proof_refusal.bin")).value() == "no proof");
}

BOOST_AUTO_TEST_CASE(another_key_is_noticed_by_the_dialler_before_it_says_who_it_is) {
  Proof a = dialler(), b = acceptor(kOther);
  BOOST_CHECK_EXCEPTION(a.check_answer(b.answer(a.challenge())), ProofError, [](const ProofError& e) {
    return std::string(e.what()).find("the key that the program states") != std::string::npos;
  });
  BOOST_CHECK_THROW(a.seal(bytes_of("me")), ProofError);
}

BOOST_AUTO_TEST_CASE(another_key_is_noticed_by_the_acceptor) {
  // A dialler that does not care what it was answered.
  const Proof::Nonce nonce = nonce_of(1);
  Proof a(kOther, Role::dialler, nonce), b = acceptor(), accomplice = acceptor(kOther);
  const Bytes challenge = a.challenge();
  b.answer(challenge);
  a.check_answer(accomplice.answer(challenge));
  BOOST_CHECK_THROW(check_tagged(b, tagged(a, bytes_of("me"))), ProofError);
  BOOST_CHECK_THROW(b.seal(bytes_of("hello")), ProofError);
}

BOOST_AUTO_TEST_CASE(keys_that_begin_alike_differ) {
  Bytes longer(33, std::byte{7});
  longer.back() = std::byte{1};  // zero would be no difference to HMAC
  Proof a = dialler(), b = acceptor(SharedKey(longer));
  BOOST_CHECK_THROW(a.check_answer(b.answer(a.challenge())), ProofError);
}

BOOST_AUTO_TEST_CASE(no_key_is_no_key) {
  BOOST_CHECK_THROW(dialler(SharedKey()), UsageError);
  BOOST_CHECK_THROW(acceptor(SharedKey()), UsageError);
}

BOOST_AUTO_TEST_CASE(ones_own_messages_sent_back_prove_nothing) {
  {  // an "acceptor" that knows no key sends back what it hears
    Proof a = dialler();
    const Bytes challenge = a.challenge();
    BOOST_CHECK_THROW(a.check_answer(challenge), MessageError);
  }
  {  // ... or has another connection, to the same worker as an acceptor, make the answer of it: that is the worker's
     // answer, but the tagged message that follows is not
    Proof a = dialler(), b = acceptor();
    a.check_answer(b.answer(a.challenge()));
    const Bytes said = tagged(a, bytes_of("me"));
    BOOST_CHECK_THROW(check_tagged(a, said), ProofError);
  }
  {  // the acceptor's own answer, as the dialler's message
    Proof b = acceptor();
    const Bytes answer = b.answer(dialler().challenge());
    BOOST_CHECK_THROW(check_tagged(b, answer), ProofError);
  }
  {  // the acceptor's message, sent back
    Proof a = dialler(), b = acceptor();
    converse(a, b, kNobody);
    const Bytes said = tagged(b, bytes_of("a reply"));
    BOOST_CHECK_THROW(check_tagged(b, said), ProofError);
  }
}

BOOST_AUTO_TEST_CASE(a_recorded_conversation_cannot_be_played_again) {
  std::vector<Bytes> recorded(4);
  {
    Proof a = dialler(), b = acceptor();
    converse(a, b, [&](int step, Bytes& message) { recorded[static_cast<std::size_t>(step)] = message; });
  }
  Proof b = acceptor();  // another connection: another nonce
  b.answer(recorded[0]);
  BOOST_CHECK_THROW(check_tagged(b, recorded[2]), ProofError);
  Proof a = dialler();
  a.challenge();
  BOOST_CHECK_THROW(a.check_answer(recorded[1]), ProofError);
}

BOOST_AUTO_TEST_CASE(a_message_counts_once_and_in_its_place) {
  Proof a = dialler(), b = acceptor();
  converse(a, b, kNobody);
  const Bytes first = tagged(a, bytes_of("first")), second = tagged(a, bytes_of("second"));
  {
    Proof again = b;
    BOOST_CHECK_THROW(check_tagged(again, second), ProofError);  // one was dropped
  }
  check_tagged(b, first);
  {
    Proof again = b;
    BOOST_CHECK_THROW(check_tagged(again, first), ProofError);
  }
  check_tagged(b, second);
}

BOOST_AUTO_TEST_CASE(a_challenge_for_another_purpose_is_refused) {
  Proof a = dialler(), b = acceptor();
  Bytes challenge = a.challenge();
  challenge[kProofPrefixBytes] = std::byte{2};
  BOOST_CHECK_EXCEPTION(b.answer(challenge), ProofError, [](const ProofError& e) {
    return std::string(e.what()).find("for another purpose (2)") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_of_every_message_is_noticed) {
  std::vector<std::size_t> sizes(4);
  {
    Proof a = dialler(), b = acceptor();
    converse(a, b, [&](int step, Bytes& message) { sizes[static_cast<std::size_t>(step)] = message.size(); });
  }
  for (int step = 0; step < 4; ++step) {
    for (std::size_t bit = 0; bit < 8 * sizes[static_cast<std::size_t>(step)]; ++bit) {
      Proof a = dialler(), b = acceptor();
      bool noticed = false;
      try {
        converse(a, b, [&](int at, Bytes& message) {
          if (at == step) message[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
        });
      } catch (const RpcError&) {
        noticed = true;
      }
      if (!noticed) BOOST_ERROR("message " << step << ", bit " << bit << " was changed and nobody noticed");
    }
  }
}

BOOST_AUTO_TEST_CASE(every_truncation_and_every_surplus_is_noticed) {
  for (int step = 0; step < 4; ++step) {
    for (int change = -1; change <= 80; ++change) {
      Proof a = dialler(), b = acceptor();
      bool noticed = false, changed = false;
      try {
        converse(a, b, [&](int at, Bytes& message) {
          if (at != step || change >= static_cast<int>(message.size())) return;
          changed = true;
          message.resize(change < 0 ? message.size() + 1 : static_cast<std::size_t>(change));
        });
      } catch (const RpcError&) {
        noticed = true;
      }
      if (changed && !noticed) BOOST_ERROR("message " << step << " had another length and nobody noticed");
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_said_out_of_turn) {
  Proof a = dialler();
  BOOST_CHECK_THROW(a.seal(bytes_of("me")), ProofError);
  BOOST_CHECK_THROW(a.check_answer(golden("proof_answer.bin")), ProofError);
  BOOST_CHECK_THROW(a.answer(golden("proof_challenge.bin")), ProofError);
  a.challenge();
  BOOST_CHECK_THROW(a.challenge(), ProofError);
  Proof b = acceptor();
  BOOST_CHECK_THROW(b.challenge(), ProofError);
  BOOST_CHECK_THROW(b.check(bytes_of("me"), Bytes(kTagBytes)), ProofError);
}

BOOST_AUTO_TEST_CASE(strangers_are_known_by_their_first_bytes) {
  const auto complaint = [](const Bytes& bytes) -> std::string {
    try {
      proof_size(bytes);
    } catch (const MessageError& e) {
      return e.what();
    }
    return "";
  };
  BOOST_TEST(complaint(bytes_of("GET / HTTP/1.1")).find("not a Tendril worker") != std::string::npos);
  BOOST_TEST(complaint(bytes_of("\x16\x03\x01\x02\x01\x01 TLS")).find("speaks TLS") != std::string::npos);
  BOOST_TEST(complaint(bytes_of("X")).find("not a Tendril worker") != std::string::npos);
  BOOST_TEST(complaint(golden("hello.bin")).find("proves no key") != std::string::npos);
  Bytes bytes = dialler().challenge();
  bytes[8] = std::byte{9};
  BOOST_TEST(complaint(bytes).find("version 9, this side speaks 1") != std::string::npos);
  bytes[8] = std::byte{1};
  bytes[11] = std::byte{0xff};
  BOOST_TEST(complaint(bytes).find("at most 256") != std::string::npos);
  for (std::size_t size = 0; size < kProofPrefixBytes; ++size) {
    BOOST_TEST(!proof_size(std::span(bytes).first(size)));
  }
}

BOOST_AUTO_TEST_CASE(a_refusal_is_shown_as_printable_text) {
  const std::string text = proof_refusal(encode_proof_refusal("a\nb\x1b[31m")).value();
  BOOST_TEST(text == "a?b?[31m");
  BOOST_TEST(encode_proof_refusal(std::string(5000, 'x')).size() == kMaxProofBytes);
  Proof a = dialler();
  a.challenge();
  BOOST_CHECK_EXCEPTION(a.check_answer(encode_proof_refusal("go away")), ProofError, [](const ProofError& e) {
    return std::string(e.what()).find("it refused the connection: go away") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
