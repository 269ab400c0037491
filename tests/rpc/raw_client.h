#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/wire/hello.h"
#include "tendril/rpc/wire/wire.h"
#include "tests/rpc/messages.h"

/// A handwritten peer, for tests of an agent's connections.
namespace rpc_test {

inline tendril::rpc::Hello raw_hello(const std::string& name, tendril::rpc::WorkerId rank, int world_size,
                                     const std::string& group = "") {
  tendril::rpc::Hello hello;
  hello.worker = {name, rank};
  hello.world_size = world_size;
  hello.group = group;
  hello.incarnation = 1;
  return hello;
}

/// A handwritten peer. Connects to the agent's Unix-domain socket or, if the endpoint has none, to its TCP port on
/// 127.0.0.1. Sends only the messages of the test: it answers no ping and grants no credit. Every wait fails the test
/// after a minute.
class RawClient {
 public:
  explicit RawClient(const tendril::rpc::Agent::Endpoint& endpoint)
      : socket_(::socket(endpoint.unix_path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM, 0)) {
    if (endpoint.unix_path.empty()) {
      sockaddr_in loopback{};
      loopback.sin_family = AF_INET;
      loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      loopback.sin_port = htons(endpoint.tcp_port);
      BOOST_REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback) == 0);
      return;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, endpoint.unix_path.c_str(), sizeof address.sun_path - 1);
    BOOST_REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  /// Sends `hello` and expects to be accepted.
  RawClient(const tendril::rpc::Agent::Endpoint& endpoint, const tendril::rpc::Hello& hello) : RawClient(endpoint) {
    say(encode(hello));
    answer_ = receive_hello();
    BOOST_REQUIRE_EQUAL(answer_.refusal, "");
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int socket() const noexcept { return socket_; }
  const tendril::rpc::Hello& answer() const noexcept { return answer_; }  ///< the agent's hello

  // ---- sending
  /// Returns true if all bytes were sent, false if the agent has closed the connection.
  bool try_say(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      BOOST_REQUIRE(ready(POLLOUT));
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n < 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  void say(std::span<const std::byte> bytes) { BOOST_REQUIRE(try_say(bytes)); }
  bool try_say(tendril::rpc::Message message) {
    return try_say(tendril::rpc::testing::bytes_of(tendril::rpc::Frame(std::move(message))));
  }
  void say(tendril::rpc::Message message) {
    const bool said = try_say(std::move(message));
    BOOST_REQUIRE(said);
  }
  /// Closes the sending direction. The agent can still send.
  void hang_up() { ::shutdown(socket_, SHUT_WR); }

  // ---- receiving
  /// Returns the next frame of any kind, or nothing if the agent has closed the connection.
  std::optional<tendril::rpc::Message> receive() {
    tendril::rpc::Message message;
    while (!reader_.next(message)) {
      const tendril::rpc::MutableBuffer to = reader_.prepare()[0];
      const ssize_t n = receive_some(to.data, to.size);
      if (n <= 0) return std::nullopt;
      reader_.commit(static_cast<std::size_t>(n));
    }
    return message;
  }
  /// Returns the next frame of this kind and skips all others.
  std::optional<tendril::rpc::Message> receive(tendril::rpc::MessageKind kind) {
    for (;;) {
      std::optional<tendril::rpc::Message> message = receive();
      if (!message || message->kind == kind) return message;
    }
  }
  tendril::rpc::Hello receive_hello() {
    tendril::rpc::Bytes bytes(tendril::rpc::kHelloPrefixBytes);
    receive_exactly(bytes);
    const std::size_t prefix = bytes.size();
    bytes.resize(*tendril::rpc::hello_size(bytes));
    receive_exactly(std::span(bytes).subspan(prefix));
    return tendril::rpc::decode_hello(bytes);
  }
  /// Returns the bytes that the agent sends until it closes the connection.
  tendril::rpc::Bytes receive_until_closed() {
    tendril::rpc::Bytes all;
    std::byte part[4096];
    for (ssize_t n = receive_some(part, sizeof part); n > 0; n = receive_some(part, sizeof part)) {
      all.insert(all.end(), part, part + n);
    }
    return all;
  }
  /// Whether the agent closes the connection within this time. Ignores the bytes that it sends before.
  bool closed_within(std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    std::byte part[4096];
    for (auto now = std::chrono::steady_clock::now(); now < deadline; now = std::chrono::steady_clock::now()) {
      if (!ready(POLLIN, std::chrono::ceil<std::chrono::milliseconds>(deadline - now))) return false;
      if (::recv(socket_, part, sizeof part, 0) <= 0) return true;
    }
    return false;
  }

 private:
  bool ready(short events, std::chrono::milliseconds patience = std::chrono::minutes(1)) {
    pollfd one{socket_, events, 0};
    return ::poll(&one, 1, static_cast<int>(patience.count())) == 1;
  }
  ssize_t receive_some(void* to, std::size_t size) {
    BOOST_REQUIRE(ready(POLLIN));
    return ::recv(socket_, to, size, 0);
  }
  void receive_exactly(std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t n = receive_some(to.data(), to.size());
      BOOST_REQUIRE(n > 0);
      to = to.subspan(static_cast<std::size_t>(n));
    }
  }

  int socket_;
  tendril::rpc::FrameReader reader_;
  tendril::rpc::Hello answer_;
};

}  // namespace rpc_test
