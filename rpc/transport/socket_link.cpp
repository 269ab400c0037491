// Reading, and the end. socket_link_writing.cpp is the other half; socket_link_resuming.cpp what happens between two
// connections.
#include "tendril/rpc/transport/socket_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kReadBudget = std::size_t{16} << 20;  // bytes read in one go before other links get their turn

std::exception_ptr lost(const std::string& what) {
  return std::make_exception_ptr(PeerLostError("connection lost: " + what, true));
}

std::string error_text(int error) { return std::system_category().message(error); }

}  // namespace

SocketLink::SocketLink(Ref<Loop> loop, int socket, SocketLinkOptions options)
    : loop_(std::move(loop)),
      options_(options),
      stream_(loop_->io(), socket),
      socket_(socket),
      grace_(options_.grace),
      grace_timer_(loop_->io()),
      reader_(options_.receive_limits),
      stall_timer_(loop_->io()),
      receive_window_(options_.receive_window),
      last_received_(Clock::now().time_since_epoch().count()),
      send_window_(options_.send_window) {
  stream_.native_non_blocking(true);
}

void SocketLink::start(std::shared_ptr<LinkEvents> events) {
  loop_->post_io([self = shared_from_this(), events = std::move(events)]() mutable {
    self->events_ = std::move(events);
    std::unique_lock lock(self->mutex_);
    const bool closed = self->closed_;
    const std::exception_ptr reason = self->reason_;
    lock.unlock();
    if (closed) return self->finish(reason);
    self->arm_read();
  });
}

// ---- reading

void SocketLink::arm_read() {
  if (!events_ || read_armed_) return;
  // The first buffer only, which is cheaper to arm: of a message that is longer, read_directly takes the rest.
  const MutableBuffer first = reader_.prepare().front();
  read_armed_ = true;
  stream_.async_read_some(
      asio::buffer(first.data, first.size),
      [self = shared_from_this(), connection = connection_](const boost::system::error_code& error, std::size_t bytes) {
        if (connection != self->connection_) return;  // it has been lost meanwhile
        self->read_armed_ = false;
        self->read_done(error, bytes);
      });
}

void SocketLink::read_done(const boost::system::error_code& error, std::size_t bytes) {
  if (!events_) return;
  if (error == asio::error::operation_aborted) return;  // close() reports
  if (error == asio::error::eof) {
    return connection_lost(
        lost(reader_.idle() ? "the peer closed it" : "the peer closed it in the middle of a message"));
  }
  if (error) return connection_lost(lost(error.message()));
  if (!deliver(bytes) || !read_directly()) return;
  arm_read();
  watch_for_stall();
}

/// False: there is nothing more to read.
bool SocketLink::deliver(std::size_t bytes) {
  bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
  const uint64_t connection = connection_;
  const Clock::time_point now = Clock::now();
  last_received_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  try {
    reader_.commit(bytes);
    Message message;
    while (events_ && connection == connection_ && reader_.next(message)) {
      loop_->message_read(now);
      if (grace_.count() > 0) count_frame(message);
      if (message.kind == MessageKind::acknowledge) continue;
      if (message.kind == MessageKind::credit) {
        credit_received(message);
        continue;
      }
      if (message.kind == MessageKind::request) receive_window_.received(request_cost(message.frame_bytes));
      // A copy: `received` may close the link and so reset events_.
      const std::shared_ptr<LinkEvents> events = events_;
      events->received(*this, std::move(message));
    }
  } catch (...) {
    finish(std::current_exception());
  }
  return events_ != nullptr && connection == connection_;
}

/// What every frame says beside its message, where frames are kept until they have come.
void SocketLink::count_frame(const Message& message) {
  if (message.kind == MessageKind::goodbye) grace_ = std::chrono::milliseconds(0);  // no connection follows this one
  const bool must_say = received_.received(message.frame_bytes);
  if (message.acknowledged != acknowledged_) {
    acknowledged_ = message.acknowledged;
    std::list<Frame> done;  // ends without the lock
    std::unique_lock lock(mutex_);
    done = sent_.acknowledged(acknowledged_);
    update_congestion_locked();
    if (!waiting_.empty()) admit_waiting(lock);
    if (!writing_ && !queue_.empty()) write(lock);
  }
  if (must_say) {
    Message acknowledgement;
    acknowledgement.kind = MessageKind::acknowledge;
    send(std::move(acknowledgement));
  }
}

/// In the middle of a message there is probably more to read: no need to ask first. True: arm the read.
bool SocketLink::read_directly() {
  std::size_t budget = kReadBudget;
  while (!reader_.idle()) {
    std::array<iovec, 16> vectors;
    std::size_t count = 0;
    for (const MutableBuffer& buffer : reader_.prepare()) {
      if (count == vectors.size()) break;
      vectors[count++] = {buffer.data, buffer.size};
    }
    const ssize_t bytes = ::readv(socket_, vectors.data(), static_cast<int>(count));
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      connection_lost(lost(error_text(errno)));
      return false;
    }
    if (bytes == 0) {
      connection_lost(lost("the peer closed it in the middle of a message"));
      return false;
    }
    if (!deliver(static_cast<std::size_t>(bytes))) return false;
    if (static_cast<std::size_t>(bytes) >= budget) return true;
    budget -= static_cast<std::size_t>(bytes);
  }
  return true;
}

void SocketLink::credit_received(const Message& message) {
  TENDRIL_CHECK_AS(MessageError, message.payload.size() == 8, "bad credit: ", message.payload.size(),
                   " bytes, expected 8");
  std::unique_lock lock(mutex_);
  send_window_.credit(get<uint64_t>(message.payload.data()));
  admit_waiting(lock);
  if (!writing_ && !queue_.empty()) write(lock);
}

void SocketLink::request_started(uint64_t cost) noexcept try {
  const std::optional<uint64_t> credit = receive_window_.started(cost);
  if (!credit) return;
  Message message;
  message.kind = MessageKind::credit;
  message.payload.resize(8);
  put(message.payload.data(), *credit);
  send(std::move(message));
} catch (...) {
  close();  // no memory: without credit the peer would wait for ever
}

/// Who has begun a message must go on with it: its memory is taken. Ends the connection after one to two timeouts.
void SocketLink::watch_for_stall() {
  if (watching_ || options_.stall_timeout.count() == 0 || !events_ || reader_.idle()) return;
  watching_ = true;
  watched_bytes_ = bytes_received_.load(std::memory_order_relaxed);
  stall_timer_.expires_after(options_.stall_timeout);
  stall_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    self->watching_ = false;
    if (error || !self->events_ || self->reader_.idle()) return;
    // If this process was the one that stood still, something is there to be read.
    char peeked = 0;
    const bool more = ::recv(self->socket_, &peeked, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
    if (more || self->bytes_received_.load(std::memory_order_relaxed) != self->watched_bytes_) {
      return self->watch_for_stall();
    }
    self->finish(lost("the peer stopped in the middle of a message"));
  });
}

void SocketLink::finish(std::exception_ptr reason) {
  if (!events_) return;
  const std::shared_ptr<LinkEvents> events = std::move(events_);
  events_.reset();
  std::list<Frame> dropped;  // tensors end without the lock
  Waiters waiters;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    congested_.store(false, std::memory_order_relaxed);
    dropped.splice(dropped.end(), waiting_);
    dropped.splice(dropped.end(), queue_);
    dropped.splice(dropped.end(), sent_.drop());
    num_waiting_.store(0, std::memory_order_relaxed);
    num_nested_waiting_ = 0;
    if (!writing_) {
      dropped.splice(dropped.end(), current_);
      offset_ = queued_bytes_ = 0;
    }
    waiters.swap(waiters_);
  }
  ::shutdown(socket_, SHUT_RDWR);
  stream_.cancel();
  stall_timer_.cancel();
  grace_timer_.cancel();
  for (const auto& [call_id, waiter] : waiters) waiter->try_set_value();
  if (!reason) reason = std::make_exception_ptr(PeerLostError("connection closed by this worker", true));
  events->closed(*this, reason);
}

void SocketLink::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  // What has been written still arrives; the peer then sees the end of the stream.
  loop_->post_io([self = shared_from_this()] { self->finish(nullptr); });
}

Link::Gauges SocketLink::gauges() const noexcept {
  Gauges gauges;
  gauges.bytes_sent = bytes_sent_.load(std::memory_order_relaxed);
  gauges.bytes_received = bytes_received_.load(std::memory_order_relaxed);
  gauges.last_received = Clock::time_point(Clock::duration(last_received_.load(std::memory_order_relaxed)));
  const std::lock_guard lock(mutex_);
  gauges.queued_bytes = queued_bytes_;
  gauges.connected = connected_;
  return gauges;
}

}  // namespace tendril::rpc::detail
