// Reading from a link's stream, and closing the link. socket_link_writing.cpp writes; socket_link_resuming.cpp replaces
// lost connections.
#include "tendril/rpc/transport/socket_link.h"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc::detail {

namespace {

constexpr std::size_t kReadBudget = std::size_t{1} << 20;  // bytes read at a time before other links get their turn

std::exception_ptr lost(const std::string& what) {
  return std::make_exception_ptr(PeerLostError("connection lost: " + what, true));
}

}  // namespace

SocketLink::SocketLink(Ref<Loop> loop, std::unique_ptr<Stream> connection, SocketLinkOptions options)
    : SocketLink(std::move(loop), options) {
  take_connection(std::move(connection));
  state_.opened(options.dialled);
}

SocketLink::SocketLink(Ref<Loop> loop, SocketLinkOptions options)
    : loop_(std::move(loop)),
      options_(options),
      session_(options_.terms.session),
      state_(options_.terms),
      grace_timer_(loop_->reactor()),
      reader_(options_.receive_limits),
      stall_timer_(loop_->reactor()),
      receive_window_(options_.receive_window),
      last_received_(Clock::now().time_since_epoch().count()),
      send_window_(options_.send_window),
      connected_(false) {}

void SocketLink::start(std::shared_ptr<LinkEvents> events) {
  loop_->post_io([self = shared_from_this(), events = std::move(events)]() mutable {
    self->events_ = std::move(events);
    self->started_ = true;
    std::unique_lock lock(self->mutex_);
    const bool closed = self->closed_;
    const std::exception_ptr reason = self->reason_;
    lock.unlock();
    if (closed) return self->finish(reason);
    if (!self->state_.begun()) return self->connection_wanted();
    self->watch();
  });
}

// ---- reading

void SocketLink::watch() {
  if (!events_ || watched_) return;
  watched_ = true;
  try {
    loop_->reactor().watch(stream_->descriptor(), shared_from_this());
    if (waits_to_write_) loop_->reactor().watch_writing(stream_->descriptor());
    if (stream_->holds_bytes()) read_soon();
  } catch (const std::system_error& error) {
    watched_ = false;
    connection_lost(lost(error.what()));
  }
}

/// Called on the leader's thread, or by the constructor; no thread may be writing.
void SocketLink::take_connection(std::unique_ptr<Stream> connection) {
  transport_.store(connection->transport(), std::memory_order_relaxed);
  peer_process_.store(connection->peer_process(), std::memory_order_relaxed);
  stream_ = std::move(connection);
  connected_ = true;
}

/// Stops watching the stream, and resumes a writer that waits until it is writable.
void SocketLink::unwatch() {
  if (std::exchange(watched_, false)) loop_->reactor().unwatch(stream_->descriptor());
  if (waits_to_write_) writable_or_lost(true);
}

bool SocketLink::ready(uint32_t events) {
  const uint32_t ended = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
  if (waits_to_write_ && (events & (EPOLLOUT | ended)) != 0) {
    loop_->reactor().stop_watching_writing(stream_->descriptor());
    writable_or_lost(false);
  }
  return (events & (EPOLLIN | ended)) != 0 && watched_ && read((events & ended) != 0);
}

/// Ends the link after an error such as a lack of memory; calls that wait for replies over it fail.
void SocketLink::failed(std::exception_ptr error) noexcept try { finish(std::move(error)); } catch (...) {
  close();
}

/// Reads until the stream is empty or the budget is used up. Returns whether anything was read. After a partial read,
/// stops unless `until_empty`: later bytes are reported again. The end of the stream is reported together with the last
/// bytes, and needs `until_empty` to be reached.
bool SocketLink::read(bool until_empty) {
  std::size_t total = 0;
  for (;;) {
    std::array<iovec, 16> vectors;
    std::size_t count = 0, room = 0;
    for (const MutableBuffer& buffer : reader_.prepare()) {
      if (count == vectors.size()) break;
      vectors[count++] = {buffer.data, buffer.size};
      room += buffer.size;
    }
    const ssize_t got = stream_->read(vectors.data(), static_cast<int>(count));
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      connection_lost(lost(stream_->describe(errno)));
      return true;
    }
    if (got == 0) {
      connection_lost(lost(reader_.idle() ? "the peer closed it" : "the peer closed it in the middle of a message"));
      return true;
    }
    const auto bytes = static_cast<std::size_t>(got);
    total += bytes;
    if (!deliver(bytes)) return true;
    if (bytes < room && !until_empty && !stream_->holds_bytes()) break;
    if (total >= kReadBudget) {
      read_soon();
      break;
    }
  }
  watch_for_stall();
  return total > 0;
}

void SocketLink::read_soon() {
  loop_->post_io([self = shared_from_this(), connection = state_.connection()] {
    if (self->watched_ && connection == self->state_.connection()) self->read(true);
  });
}

/// Processes `bytes` received bytes. Returns false if nothing more may be read from this connection.
bool SocketLink::deliver(std::size_t bytes) {
  bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
  const uint64_t connection = state_.connection();
  const Clock::time_point now = Clock::now();
  last_received_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  // A copy: `received` may close the link and so reset events_.
  const std::shared_ptr<LinkEvents> events = events_;
  try {
    reader_.commit(bytes);
    Message message;
    while (events_ && connection == state_.connection() && reader_.next(message)) {
      loop_->message_read(now);
      if (state_.resumable()) count_frame(message);
      switch (message.kind) {
        case MessageKind::acknowledge:
          continue;
        case MessageKind::credit:
          credit_received(message);
          continue;
        case MessageKind::request:
          receive_window_.received(request_cost(message.frame_bytes));
          break;
        case MessageKind::reply:
        case MessageKind::error:
          note_answered();
          break;
        default:
          break;
      }
      events->received(*this, std::move(message), now);
    }
  } catch (...) {
    finish(std::current_exception());
  }
  return events_ != nullptr && connection == state_.connection();
}

/// Counts a received frame, and handles the acknowledgement in its header. Only for sessions that can be resumed.
void SocketLink::count_frame(const Message& message) {
  if (message.kind == MessageKind::goodbye) state_.goodbye();
  const bool must_say = received_.received(message.frame_bytes);
  if (message.acknowledged != acknowledged_) {
    acknowledged_ = message.acknowledged;
    FrameList done;  // destroyed without the lock
    std::unique_lock lock(mutex_);
    done = sent_.acknowledged(acknowledged_);
    update_congestion_locked();
    admit_waiting(lock);
    if (!writing_ && !queue_.empty()) write(lock);
  }
  if (must_say) {
    Message acknowledgement;
    acknowledgement.kind = MessageKind::acknowledge;
    send(std::move(acknowledgement));
  }
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
  close();  // out of memory: without credit the peer would wait for ever
}

/// Ends the link if the peer stops in the middle of a message, which keeps memory allocated. Takes one to two timeouts.
void SocketLink::watch_for_stall() {
  if (reader_.idle() || stall_timer_.is_set() || options_.stall_timeout.count() == 0 || !events_) return;
  watched_bytes_ = bytes_received_.load(std::memory_order_relaxed);
  stall_timer_.call_after(options_.stall_timeout, [self = shared_from_this()] {
    if (!self->events_ || self->reader_.idle()) return;
    // If this process was the one that was stopped, there are bytes to read.
    std::byte peeked{};
    const bool more = self->stream_->peek(peeked) >= 0;
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
  state_.ended();
  FrameList dropped;  // tensors are released without the lock
  Waiters waiters;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    congested_.store(false, std::memory_order_relaxed);
    waiting_.drop(dropped);
    waiting_large_.drop(dropped);
    dropped.splice(dropped.end(), queue_);
    dropped.splice(dropped.end(), sent_.drop());
    num_waiting_.store(0, std::memory_order_relaxed);
    if (!writing_) {
      outgoing_.give_back(dropped);
      queued_ = {};
    }
    waiters.swap(waiters_);
  }
  if (stream_) stream_->end();
  stall_timer_.cancel();
  grace_timer_.cancel();
  unwatch();
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
  // Bytes already written still arrive; the peer then sees the end of the stream.
  loop_->post_io([self = shared_from_this()] { self->finish(nullptr); });
}

Link::Gauges SocketLink::gauges() const noexcept {
  Gauges gauges;
  gauges.bytes_sent = bytes_sent_.load(std::memory_order_relaxed);
  gauges.bytes_received = bytes_received_.load(std::memory_order_relaxed);
  gauges.last_received = Clock::time_point(Clock::duration(last_received_.load(std::memory_order_relaxed)));
  const std::lock_guard lock(mutex_);
  gauges.queued_bytes = queued_.total();
  gauges.connected = connected_;
  gauges.begun = transport_.load(std::memory_order_relaxed) != nullptr;
  return gauges;
}

}  // namespace tendril::rpc::detail
