#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "tendril/rpc/simulation/network.h"
#include "tendril/rpc/simulation/poller.h"

namespace tendril::rpc::detail {

/// One end of a connection, which its worker reads and writes.
class SimulatedStream final : public Stream, public SimulatedDescriptor {
 public:
  SimulatedStream(SimulatedNetwork& network, SimulatedWorker& worker, std::shared_ptr<Connection> connection, int end)
      : SimulatedDescriptor(worker), network_(network), connection_(std::move(connection)), end_(end) {
    connection_->streams[static_cast<std::size_t>(end)] = this;
  }
  ~SimulatedStream() override {
    connection_->streams[static_cast<std::size_t>(end_)] = nullptr;
    if (!worker().dead) network_.closed(*connection_, end_, reset_ && connection_->tcp);
  }

  ssize_t read(const iovec* to, int count) noexcept override {
    Flow& flow = incoming();
    const std::string_view readable = flow.readable();
    if (readable.empty()) {
      if (flow.end_received) return 0;  // even if a reset followed, as on Linux
      if (error() != 0) return failed(error());
      if (shut_) return 0;
      return failed(connection_->made ? EAGAIN : ENOTCONN);
    }
    std::size_t done = 0;
    for (int i = 0; i < count && done < readable.size(); ++i) {
      const std::size_t size = std::min(to[i].iov_len, readable.size() - done);
      std::memcpy(to[i].iov_base, readable.data() + done, size);
      done += size;
    }
    flow.consume(done);
    if (error() == 0) network_.has_read(*connection_, end_);
    return static_cast<ssize_t>(done);
  }
  ssize_t write(const iovec* from, int count) noexcept override {
    if (error() != 0) return failed(error());
    if (shut_ || outgoing().end_sent) return failed(EPIPE);
    if (!connection_->made) return failed(EAGAIN);
    return network_.write(*connection_, end_, from, count);
  }
  ssize_t peek(std::byte& first) noexcept override {
    if (incoming().readable().empty()) {
      std::byte none{};
      const iovec nothing{&none, 0};
      return read(&nothing, 1);
    }
    first = static_cast<std::byte>(incoming().readable().front());
    return 1;
  }
  bool takes_bytes() noexcept override { return (ready() & EPOLLOUT) != 0; }
  void end_writing() noexcept override {
    if (outgoing().end_sent || !connection_->made || error() != 0 || worker().dead) return;
    outgoing().end_sent = true;
    network_.send(*connection_, end_, {.kind = Segment::Kind::end});
  }
  void end() noexcept override {
    end_writing();
    shut_ = true;
    report(EPOLLIN | EPOLLRDHUP | EPOLLHUP);
  }
  void reset_at_end() noexcept override { reset_ = true; }
  int connection_error() noexcept override { return error(); }
  int descriptor() const noexcept override { return number(); }
  const char* transport() const noexcept override { return connection_->tcp ? "tcp" : "unix"; }
  bool peer_is_same_user() const noexcept override { return !connection_->tcp; }
  std::optional<Ends> ends() const override {
    if (!connection_->tcp || !connection_->made) return std::nullopt;
    return Ends{.local = connection_->ends[end_].address(), .remote = connection_->ends[1 - end_].address()};
  }

  uint32_t ready() const override {
    uint32_t events = 0;
    const Flow& in = connection_->flows[static_cast<std::size_t>(1 - end_)];
    const Flow& out = connection_->flows[static_cast<std::size_t>(end_)];
    if (!in.readable().empty() || in.end_received || shut_) events |= EPOLLIN;
    if (in.end_received || shut_) events |= EPOLLRDHUP;
    if (connection_->errors[static_cast<std::size_t>(end_)] != 0) events |= EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLOUT;
    if (connection_->made && out.used() < connection_->buffer) events |= EPOLLOUT;
    return events;
  }

 private:
  Flow& incoming() noexcept { return connection_->flows[static_cast<std::size_t>(1 - end_)]; }
  Flow& outgoing() noexcept { return connection_->flows[static_cast<std::size_t>(end_)]; }
  int error() const noexcept { return connection_->errors[static_cast<std::size_t>(end_)]; }
  static ssize_t failed(int error) noexcept {
    errno = error;
    return -1;
  }

  SimulatedNetwork& network_;
  const std::shared_ptr<Connection> connection_;
  const int end_;
  bool shut_ = false, reset_ = false;
};

}  // namespace tendril::rpc::detail
