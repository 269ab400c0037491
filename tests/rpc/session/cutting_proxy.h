#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "tendril/rpc/agent.h"

namespace rpc_test {

/// A proxy between two workers that forwards its connections to the TCP port of `target`. It can break, stall or refuse
/// them.
class CuttingProxy {
 public:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  explicit CuttingProxy(const tendril::rpc::Agent::Endpoint& target)
      : target_(target.tcp_port), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    BOOST_REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    BOOST_REQUIRE(::listen(listener_, 100) == 0);
    BOOST_REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~CuttingProxy() {
    thread_.request_stop();
    thread_.join();
    for (const Pair& pair : pairs_) close_both(pair);
    ::close(listener_);
  }
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  tendril::rpc::Agent::Endpoint endpoint() const { return {.tcp_host = std::string("127.0.0.1"), .tcp_port = port_}; }

  /// Breaks every connection once, after `bytes` more bytes have passed in either direction.
  void cut_after(uint64_t bytes) { left_ = bytes; }
  void cut() { cut_after(0); }
  void change_a_byte() { changing_ = true; }  ///< of the next bytes that pass
  /// If `on`, nothing passes after this returns, but no connection breaks. Otherwise everything passes again.
  void hold(bool on) {
    held_ = on;
    const uint64_t rounds = rounds_;
    while (on && rounds_ < rounds + 2) std::this_thread::yield();  // until bytes already read have been written
  }
  /// Stops forwarding over the present connections without closing them; new connections work.
  void stall() {
    const std::lock_guard lock(mutex_);
    stalled_before_ = connections_.load();
  }
  /// Holds when `bytes` bytes have passed in all; kNever: from now on everything passes.
  void hold_after(uint64_t bytes) { held_after_ = bytes; }
  /// Sends this text to new connections and closes them, as if another process listened here. Empty: forwards again.
  void answer(const std::string& text) {
    const std::lock_guard lock(mutex_);
    answer_ = text;
  }
  void refuse(bool on) { refusing_ = on; }  ///< new connections are closed at once
  uint64_t passed() const { return passed_; }
  uint16_t target() const { return target_; }
  int connections() const { return connections_; }
  int open() const { return open_; }  ///< connections that have not ended yet
  int cuts() const { return cuts_; }  ///< how often `cut` or `cut_after` has broken the connections

 private:
  struct Pair {
    int near, far;
    int number;  // in the order of acceptance, from 0
  };

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
  static void close_both(const Pair& pair) {
    ::close(pair.near);
    ::close(pair.far);
  }

  void run(const std::stop_token& stop) {
    for (; !stop.stop_requested(); ++rounds_) {
      if (left_ == 0) {
        for (const Pair& pair : pairs_) close_both(pair);
        pairs_.clear();
        open_ = 0;
        left_ = kNever;
        ++cuts_;
      }
      accept_one();
      bool idle = true;
      for (auto at = pairs_.begin(); at != pairs_.end() && left_ > 0;) {
        const auto pair = at++;
        if (held_ || pair->number < stalled_before_) continue;
        const int there = pass(pair->near, pair->far), back = pass(pair->far, pair->near);
        idle = idle && there <= 0 && back <= 0;
        if (there < 0 || back < 0) {
          close_both(*pair);
          pairs_.erase(pair);
          --open_;
        }
      }
      if (idle) ::poll(nullptr, 0, 1);
    }
  }

  void accept_one() {
    const int near = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
    if (near < 0) return;
    const int far = ::socket(AF_INET, SOCK_STREAM, 0);
    const std::lock_guard lock(mutex_);
    if (!answer_.empty()) {
      ::send(near, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      ++connections_;
      return close_both({near, far, 0});
    }
    const sockaddr_in address = loopback(target_);
    if (refusing_ || ::connect(far, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return close_both({near, far, 0});
    }
    const int on = 1;
    for (const int socket : {near, far}) ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pairs_.push_back({near, far, connections_++});
    ++open_;
  }

  /// Whether the connection has been closed and no bytes are left to read.
  static bool closed(int socket) {
    char byte = 0;
    const ssize_t got = ::recv(socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

  /// Returns 1 if bytes have passed, 0 if not, and -1 if the connection has ended.
  int pass(int from, int to) {
    std::array<char, 65536> buffer;
    uint64_t left = left_;
    const uint64_t passes = held_after_ - std::min<uint64_t>(held_after_, passed_);
    if (passes == 0) return closed(from) ? -1 : 0;
    const ssize_t got = ::recv(from, buffer.data(), std::min({uint64_t{buffer.size()}, left, passes}), MSG_DONTWAIT);
    if (got == 0) return left == 0 ? 0 : -1;
    if (got < 0) return errno == EAGAIN ? 0 : -1;
    passed_ += static_cast<uint64_t>(got);
    if (changing_.exchange(false)) buffer[static_cast<std::size_t>(got) / 2] ^= 1;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t n = ::send(to, buffer.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
      if (n > 0) sent += n;
      if (n < 0 && errno == EAGAIN) ::poll(nullptr, 0, 1);
      if (n < 0 && errno != EAGAIN) return -1;
    }
    if (left != kNever) left_.compare_exchange_strong(left, left - static_cast<uint64_t>(got));
    return 1;
  }

  const uint16_t target_;
  const int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> held_{false}, refusing_{false}, changing_{false};
  std::atomic<uint64_t> left_{kNever}, passed_{0}, held_after_{kNever}, rounds_{0};
  std::atomic<int> connections_{0}, open_{0}, cuts_{0}, stalled_before_{0};
  std::list<Pair> pairs_;
  std::mutex mutex_;
  std::string answer_;
  std::jthread thread_;
};

}  // namespace rpc_test
