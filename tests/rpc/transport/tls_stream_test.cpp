// Tests TLS over a socket pair, without agents.
#include "tendril/rpc/transport/tls_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/transport/socket_stream.h"
#include "tendril/rpc/transport/tls_context.h"
#include "tendril/rpc/wire/message.h"
#include "tests/rpc/certificates.h"
#include "tests/rpc/error_text.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(tls_stream)

using rpc_test::Certificates;
using tendril::rpc::Bytes;
using tendril::rpc::SharedKey;
using tendril::rpc::TlsCredentials;
using tendril::rpc::TlsFiles;
using tendril::rpc::detail::SocketStream;
using tendril::rpc::detail::Stream;
using tendril::rpc::detail::TlsContext;
using tendril::rpc::detail::TlsStream;
using tendril::rpc::detail::UniqueFd;
using tendril::test::contains;
using tendril::test::text_of_error;
using tendril::testing::test_seed;

struct SocketPair {
  SocketPair() {
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const int size = 20'000;  // small, so that writers often find it full
    for (const int end : ends) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  ~SocketPair() {
    for (const int end : ends) ::close(end);
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;
  std::unique_ptr<Stream> stream(int end) const {
    return std::make_unique<SocketStream>(UniqueFd(::dup(ends[end])), false);
  }
  int ends[2] = {-1, -1};
};

/// Continues both handshakes by turns until both are done.
void shake_hands(TlsStream& a, TlsStream& b) {
  for (int i = 0; i < 100; ++i) {
    const bool first = a.handshake() == TlsStream::Progress::done, second = b.handshake() == TlsStream::Progress::done;
    if (first && second) return;
  }
  BOOST_FAIL("no end of the handshake");
}

/// Can be used on any thread and keeps errno, unlike the checks of Boost.Test.
void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

void wait_for(int socket, short events) {
  pollfd one{socket, events, 0};
  check(::poll(&one, 1, 60'000) == 1, "nothing happened for a minute");
}

std::vector<char> numbered_bytes(std::size_t n) {
  std::vector<char> bytes(n);
  std::minstd_rand random(static_cast<unsigned>(test_seed()));
  for (char& byte : bytes) byte = static_cast<char>(random() >> 16);
  return bytes;
}

/// Writes in parts of all sizes, up to ten at a time.
void write_all(TlsStream& stream, int socket, const std::vector<char>& bytes) {
  std::minstd_rand random(static_cast<unsigned>(test_seed(1)));
  for (std::size_t at = 0; at < bytes.size();) {
    std::array<iovec, 10> parts;
    int count = 0;
    for (std::size_t next = at; count < 10 && next < bytes.size(); ++count) {
      constexpr std::size_t sizes[] = {0, 1, 104, 700, 16'384, 50'000};
      const std::size_t size = std::min(sizes[random() % 6], bytes.size() - next);
      parts[static_cast<std::size_t>(count)] = {const_cast<char*>(bytes.data()) + next, size};
      next += size;
    }
    std::size_t all = 0;
    for (int i = 0; i < count; ++i) all += parts[static_cast<std::size_t>(i)].iov_len;
    const std::size_t end = at + all;
    while (at < end) {
      const iovec rest{const_cast<char*>(bytes.data()) + at, end - at};
      const ssize_t n = at + all == end ? stream.write(parts.data(), count) : stream.write(&rest, 1);
      if (n >= 0) {
        at += static_cast<std::size_t>(n);
        continue;
      }
      check(errno == EAGAIN, stream.describe(errno));
      wait_for(socket, POLLOUT);
    }
  }
}

std::vector<char> read_all(TlsStream& stream, int socket, std::size_t size) {
  std::vector<char> bytes(size);
  for (std::size_t at = 0; at < size;) {
    const std::size_t half = (size - at) / 2;
    const iovec parts[2] = {{bytes.data() + at, half}, {bytes.data() + at + half, size - at - half}};
    const ssize_t n = stream.read(parts, 2);
    if (n < 0) {
      check(errno == EAGAIN, stream.describe(errno));
      wait_for(socket, POLLIN);
      continue;
    }
    check(n > 0, "closed");
    at += static_cast<std::size_t>(n);
  }
  return bytes;
}

/// Two sides between which the test forwards the bytes.
struct Relay {
  Relay() {
    for (bool done = false; !done;) {
      const bool first = a.handshake() == TlsStream::Progress::done;
      pass(8192, false);
      done = b.handshake() == TlsStream::Progress::done && first;
      const ssize_t n = ::recv(far.ends[1], passing.data(), passing.size(), MSG_DONTWAIT);
      if (n > 0) BOOST_REQUIRE(::send(near.ends[1], passing.data(), static_cast<std::size_t>(n), 0) == n);
    }
  }
  /// Forwards bytes from a to b.
  void pass(std::size_t most, bool change) {
    const ssize_t n = ::recv(near.ends[1], passing.data(), std::min(most, passing.size()), MSG_DONTWAIT);
    if (n <= 0) return;
    if (change) passing[static_cast<std::size_t>(n) - 3] ^= 1;
    BOOST_REQUIRE(::send(far.ends[1], passing.data(), static_cast<std::size_t>(n), 0) == n);
  }

  const Certificates folder;
  const Certificates::Authority authority{folder, "authority"};
  const SocketPair near, far;
  TlsStream a{authority.member("a").context(), near.stream(0), TlsStream::Side::dialler};
  TlsStream b{authority.member("b").context(), far.stream(0), TlsStream::Side::acceptor};
  std::array<char, 8192> passing;
  std::size_t offered = 0;  // bytes that `a` was given and could not take
};

BOOST_AUTO_TEST_CASE(bytes_survive_both_directions_and_key_changes) {
  const Certificates folder;
  const Certificates::Authority authority(folder, "authority");
  const SocketPair sockets;
  constexpr uint64_t bytes_per_key = 100'000;
  TlsStream a(authority.member("a").context(), sockets.stream(0), TlsStream::Side::dialler, bytes_per_key);
  TlsStream b(authority.member("b").context(), sockets.stream(1), TlsStream::Side::acceptor, bytes_per_key);
  shake_hands(a, b);
  const std::vector<char> there = numbered_bytes(3'000'000), back = numbered_bytes(2'000'001);
  std::jthread first([&] { write_all(a, sockets.ends[0], there); });
  std::jthread second([&] { write_all(b, sockets.ends[1], back); });
  std::vector<char> got_back;
  std::jthread third([&] { got_back = read_all(a, sockets.ends[0], back.size()); });
  const bool same = read_all(b, sockets.ends[1], there.size()) == there;
  third.join();
  BOOST_TEST(same);
  BOOST_TEST((got_back == back));
}

BOOST_AUTO_TEST_CASE(changed_byte_is_detected) {
  Relay relay;
  char text[] = "a hundred dollars";
  const iovec all{text, sizeof text};
  BOOST_TEST(relay.a.write(&all, 1) == static_cast<ssize_t>(sizeof text));
  relay.pass(8192, true);
  BOOST_TEST(relay.b.read(&all, 1) == -1);
  BOOST_TEST(errno == EPROTO);
  BOOST_TEST(contains(relay.b.describe(EPROTO), "bad record mac"), relay.b.describe(EPROTO));
}

BOOST_AUTO_TEST_CASE(only_counted_bytes_arrive) {
  Relay relay;
  std::minstd_rand random(static_cast<unsigned>(test_seed(2)));
  const std::vector<char> bytes = numbered_bytes(400'000);
  std::vector<char> arrived;
  for (std::size_t written = 0; written < bytes.size() || arrived.size() < bytes.size();) {
    for (ssize_t n = 0; n >= 0 && written < bytes.size();) {
      constexpr std::size_t sizes[] = {1, 700, 3000, 20'000};
      const iovec part{const_cast<char*>(bytes.data()) + written,
                       std::min(std::max(sizes[random() % 4], relay.offered), bytes.size() - written)};
      n = relay.a.write(&part, 1);
      check(n >= 0 || errno == EAGAIN, relay.a.describe(errno));
      relay.offered = part.iov_len - static_cast<std::size_t>(std::max<ssize_t>(n, 0));
      if (n > 0) written += static_cast<std::size_t>(n);
    }
    // Usually a little, which makes room for at most one record; sometimes everything.
    const unsigned passes = random() % 4 == 0 ? 8 : 1;
    for (unsigned i = 0; i < passes; ++i) relay.pass(1 + random() % 4000, false);
    std::array<char, 4096> got;
    const iovec to{got.data(), got.size()};
    for (ssize_t n = relay.b.read(&to, 1); n > 0; n = relay.b.read(&to, 1)) {
      arrived.insert(arrived.end(), got.data(), got.data() + n);
    }
    BOOST_REQUIRE(arrived.size() <= written);
  }
  BOOST_TEST((arrived == bytes));
}

/// Calls `handshake` of both sides until both have thrown, but at most 100 times. Returns the texts of the errors.
std::pair<std::string, std::string> errors_of(TlsStream& a, TlsStream& b) {
  std::string first, second;
  for (int i = 0; i < 100 && (first.empty() || second.empty()); ++i) {
    if (first.empty()) first = text_of_error([&] { a.handshake(); });
    if (second.empty()) second = text_of_error([&] { b.handshake(); });
  }
  return {first, second};
}

std::shared_ptr<const TlsContext> keyed(const SharedKey& key) { return std::make_shared<const TlsContext>(key); }

BOOST_AUTO_TEST_CASE(shared_key_protects_a_connection) {
  const SharedKey key = SharedKey::random();
  const SocketPair sockets;
  TlsStream a(keyed(key), sockets.stream(0), TlsStream::Side::dialler);
  TlsStream b(keyed(SharedKey(key.bytes())), sockets.stream(1), TlsStream::Side::acceptor);
  shake_hands(a, b);
  BOOST_TEST(a.peer_may_be("any name"));
  const std::vector<char> there = numbered_bytes(300'000);
  std::jthread writing([&] { write_all(a, sockets.ends[0], there); });
  BOOST_TEST((read_all(b, sockets.ends[1], there.size()) == there));
}

BOOST_AUTO_TEST_CASE(both_sides_report_different_keys) {
  const Bytes long_key(64, std::byte{7});
  for (const auto& [mine, theirs] :
       {std::pair(SharedKey::random("mine"), SharedKey::random("theirs")),
        std::pair(SharedKey(long_key, "mine"), SharedKey(std::span(long_key).first(63), "theirs"))}) {
    const SocketPair sockets;
    TlsStream a(keyed(mine), sockets.stream(0), TlsStream::Side::dialler);
    TlsStream b(keyed(theirs), sockets.stream(1), TlsStream::Side::acceptor);
    const auto [first, second] = errors_of(a, b);
    BOOST_TEST(contains(first, "the other side does not hold this worker's key (mine)"), first);
    BOOST_TEST(contains(second, "the other side does not hold this worker's key (theirs)"), second);
  }
}

BOOST_AUTO_TEST_CASE(key_and_certificates_cannot_be_mixed) {
  const Certificates folder;
  const Certificates::Authority authority(folder, "authority");
  for (const bool dialler_has_key : {true, false}) {
    const SocketPair sockets;
    const auto key = keyed(SharedKey::random()), certificates = authority.member("member").context();
    TlsStream a(dialler_has_key ? key : certificates, sockets.stream(0), TlsStream::Side::dialler);
    TlsStream b(dialler_has_key ? certificates : key, sockets.stream(1), TlsStream::Side::acceptor);
    const auto [first, second] = errors_of(a, b);
    BOOST_TEST(contains(dialler_has_key ? first : second,
                        "the other side does not use a shared key, but this worker does: "
                        "give all workers certificates, or none"));
    BOOST_TEST(!(dialler_has_key ? second : first).empty());
  }
}

BOOST_AUTO_TEST_CASE(empty_key_is_refused) { BOOST_CHECK_THROW(TlsContext{SharedKey()}, tendril::rpc::UsageError); }

BOOST_AUTO_TEST_CASE(stream_below_continues_after_the_last_record) {
  const SharedKey key = SharedKey::random();
  const SocketPair sockets;
  TlsStream a(keyed(key), sockets.stream(0), TlsStream::Side::dialler);
  TlsStream b(keyed(key), sockets.stream(1), TlsStream::Side::acceptor);
  shake_hands(a, b);
  char record[] = "secured", rest[] = "in the clear", got[20] = {};
  const iovec secured{record, sizeof record}, plain{rest, sizeof rest}, to_record{got, sizeof record};
  BOOST_TEST(a.write(&secured, 1) == static_cast<ssize_t>(sizeof record));
  const std::unique_ptr<Stream> below_a = a.give_back();
  BOOST_TEST(below_a->write(&plain, 1) == static_cast<ssize_t>(sizeof rest));
  BOOST_TEST(b.read(&to_record, 1) == static_cast<ssize_t>(sizeof record));
  BOOST_TEST(got == std::string(record));
  const iovec to_rest{got, sizeof got};
  BOOST_TEST(b.give_back()->read(&to_rest, 1) == static_cast<ssize_t>(sizeof rest));
  BOOST_TEST(got == std::string(rest));
}

BOOST_AUTO_TEST_CASE(unacceptable_files_are_refused_at_once) {
  const Certificates folder;
  const Certificates::Authority authority(folder, "authority"), other(folder, "other");
  const TlsFiles good = authority.issue("good"), foreign = other.issue("foreign");
  BOOST_TEST(!!TlsCredentials::from_files(good));
  const auto complaint = [](const TlsFiles& files) {
    return text_of_error([&] { TlsCredentials::from_files(files); });
  };

  TlsFiles files = good;
  files.certificate = folder.path() + "/none.pem";
  BOOST_TEST(contains(complaint(files), "the certificate '" + files.certificate + "' cannot be opened: No such file"));
  files = good;
  files.authority.clear();
  BOOST_TEST(contains(complaint(files), "TLS needs three files"));
  files = good;
  files.certificate = good.private_key;
  BOOST_TEST(contains(complaint(files), "holds no certificate in PEM format"));
  files = good;
  files.private_key = good.certificate;
  ::chmod(good.certificate.c_str(), 0600);
  BOOST_TEST(contains(complaint(files), "holds no private key that fits the certificate"));
  files = good;
  files.private_key = foreign.private_key;
  BOOST_TEST(contains(complaint(files), "key"));
  files = good;
  files.authority = foreign.authority;
  BOOST_TEST(contains(complaint(files), "would be refused by workers whose authority is '" + foreign.authority));
  BOOST_TEST(contains(complaint(authority.issue("old", {.valid_for_s = -60})), "certificate has expired"));
  BOOST_TEST(contains(complaint(authority.issue("locked", {.password = "secret"})), "and is not encrypted"));
  BOOST_TEST(contains(complaint(authority.issue("server", {.extended_use = "serverAuth"})),
                      "it must be good for servers and clients"));
  BOOST_TEST(!!TlsCredentials::from_files(authority.issue("both", {.extended_use = "serverAuth,clientAuth"})));

  for (const mode_t mode : {0640, 0604, 0660}) {
    ::chmod(good.private_key.c_str(), mode);
    BOOST_TEST(contains(complaint(good), "can be reached by other users"));
  }
  ::chmod(good.private_key.c_str(), 0400);
  BOOST_TEST(!!TlsCredentials::from_files(good));
  ::chmod(good.authority.c_str(), 0666);
  BOOST_TEST(contains(complaint(good), "is writable by every user"));
}

BOOST_AUTO_TEST_SUITE_END()
