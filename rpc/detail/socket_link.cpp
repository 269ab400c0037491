#include "tendril/rpc/detail/socket_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <cerrno>
#include <system_error>

#include "tendril/rpc/detail/thread_state.h"
#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kMaxBuffers = 64;                     // of one sendmsg; more gains nothing
constexpr std::size_t kReadBudget = std::size_t{16} << 20;  // bytes read in one go before other links get their turn

std::exception_ptr lost(const std::string& what) {
  return std::make_exception_ptr(PeerLostError("connection lost: " + what, true));
}

std::string error_text(int error) { return std::system_category().message(error); }

}  // namespace

SocketLink::SocketLink(Ref<Loop> loop, int socket, SocketLinkOptions options)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      stream_(loop_->io(), socket),
      socket_(socket),
      reader_(options_.receive_limits),
      last_received_(Clock::now().time_since_epoch().count()) {
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
  if (!events_ || read_armed_ || !reading_.load(std::memory_order_acquire)) return;
  // The first buffer only, which is cheaper to arm: of a message that is longer, read_directly takes the rest.
  const MutableBuffer first = reader_.prepare().front();
  read_armed_ = true;
  stream_.async_read_some(asio::buffer(first.data, first.size),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
                            self->read_armed_ = false;
                            self->read_done(error, bytes);
                          });
}

void SocketLink::read_done(const boost::system::error_code& error, std::size_t bytes) {
  if (!events_) return;
  if (error == asio::error::operation_aborted) return;  // close() reports
  if (error == asio::error::eof) {
    return finish(lost(reader_.idle() ? "the peer closed it" : "the peer closed it in the middle of a message"));
  }
  if (error) return finish(lost(error.message()));
  if (deliver(bytes) && read_directly()) arm_read();
}

/// False: the link is finished.
bool SocketLink::deliver(std::size_t bytes) {
  bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
  const Clock::time_point now = Clock::now();
  last_received_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  try {
    reader_.commit(bytes);
    Message message;
    while (events_ && reader_.next(message)) {
      loop_->message_read(now);
      // A copy: `received` may close the link and so reset events_.
      const std::shared_ptr<LinkEvents> events = events_;
      events->received(*this, std::move(message));
    }
  } catch (...) {
    finish(std::current_exception());
  }
  return events_ != nullptr;
}

/// In the middle of a message there is probably more to read: no need to ask first. True: arm the read.
bool SocketLink::read_directly() {
  std::size_t budget = kReadBudget;
  while (!reader_.idle() && reading_.load(std::memory_order_acquire)) {
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
      finish(lost(error_text(errno)));
      return false;
    }
    if (bytes == 0) {
      finish(lost("the peer closed it in the middle of a message"));
      return false;
    }
    if (!deliver(static_cast<std::size_t>(bytes))) return false;
    if (static_cast<std::size_t>(bytes) >= budget) return true;
    budget -= static_cast<std::size_t>(bytes);
  }
  return true;
}

void SocketLink::set_reading(bool on) noexcept {
  if (reading_.exchange(on, std::memory_order_acq_rel) == on || !on) return;
  loop_->post_io([self = shared_from_this()] { self->arm_read(); });
}

void SocketLink::finish(std::exception_ptr reason) {
  if (!events_) return;
  const std::shared_ptr<LinkEvents> events = std::move(events_);
  events_.reset();
  Ref<FutureState<void>> room;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    queue_.clear();
    if (!writing_) {
      current_.clear();
      offset_ = queued_bytes_ = 0;
    }
    room = std::move(room_);
  }
  ::shutdown(socket_, SHUT_RDWR);
  stream_.cancel();
  if (room) room->try_set_value();
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

// ---- writing

bool SocketLink::send(Message&& message) {
  wait_for_room();
  std::list<Frame> one;
  one.emplace_back(std::move(message), options_.send_limits);
  const std::size_t size = one.front().size();
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  queue_.splice(queue_.end(), one);
  queued_bytes_ += size;
  if (writing_) return true;
  WriteBatch& batch = WriteBatch::current();
  if (batch.holding()) {
    if (!in_batch_) {
      in_batch_ = true;
      batch.add(shared_from_this());
    }
    return true;
  }
  write(lock);
  return true;
}

void SocketLink::flush() noexcept {
  std::unique_lock lock(mutex_);
  in_batch_ = false;
  if (!writing_ && !queue_.empty()) write(lock);
}

/// Before a message is queued, so that a single one always goes, however large.
void SocketLink::wait_for_room() {
  if (ThreadState::current().io_callbacks > 0)
    return;  // a reply or control message of the leader, which must not block
  for (;;) {
    Future<void> room;
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || queued_bytes_ <= options_.max_queued_bytes) return;
      if (!room_) room_ = Ref<FutureState<void>>(new FutureState<void>(loop_.get()));
      room = Future<void>(room_);
    }
    try {
      room.wait();  // ends with the connection at the latest
    } catch (const UsageError&) {
      return;  // this thread may not block: the queue grows
    }
  }
}

/// `lock` is held, nobody writes, and something is queued or left over. Leaves the rest to the leader if the socket is
/// full.
void SocketLink::write(std::unique_lock<std::mutex>& lock) {
  writing_ = true;
  for (;;) {
    current_.splice(current_.end(), queue_);
    if (current_.empty() || closed_) {
      current_.clear();
      offset_ = queued_bytes_ = 0;
      writing_ = false;
      return;
    }
    lock.unlock();
    std::size_t written = 0;
    const bool took = write_once(current_, offset_, written);
    lock.lock();
    queued_bytes_ -= written;
    if (room_ && queued_bytes_ <= options_.max_queued_bytes / 2) {
      const Ref<FutureState<void>> room = std::move(room_);
      lock.unlock();
      room->try_set_value();
      lock.lock();
    }
    if (took) continue;
    loop_->post_io([self = shared_from_this()] {
      self->stream_.async_wait(asio::posix::stream_descriptor::wait_write,
                               [self](const boost::system::error_code& error) {
                                 std::unique_lock relock(self->mutex_);
                                 if (error) self->closed_ = true;
                                 self->write(relock);
                               });
    });
    return;  // writing_ stays set until then
  }
}

/// False: the socket takes no more at present. Only the writer touches `frames` and `offset`.
bool SocketLink::write_once(std::list<Frame>& frames, std::size_t& offset, std::size_t& written) {
  std::array<ConstBuffer, kMaxBuffers> buffers;
  std::size_t count = 0, wanted = 0, skip = offset;
  for (const Frame& frame : frames) {
    count += frame.gather(skip, std::span(buffers).subspan(count));
    skip = 0;
    if (count == buffers.size()) break;
  }
  std::array<iovec, kMaxBuffers> vectors;
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {const_cast<void*>(buffers[i].data), buffers[i].size};
    wanted += buffers[i].size;
  }
  msghdr header{};
  header.msg_iov = vectors.data();
  header.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(socket_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    write_failed(errno);
    return true;
  }
  bytes_sent_.fetch_add(static_cast<uint64_t>(sent), std::memory_order_relaxed);
  written = static_cast<std::size_t>(sent);
  offset += written;
  while (!frames.empty() && offset >= frames.front().size()) {
    offset -= frames.front().size();
    frames.pop_front();
  }
  return written == wanted;
}

void SocketLink::write_failed(int error) noexcept {
  const std::exception_ptr reason = lost(error_text(error));
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (!reason_) reason_ = reason;
  }
  // What the peer sent before it went away is still read: the reading side reports the end, unless it is paused.
  loop_->post_io([self = shared_from_this(), reason] {
    if (!self->read_armed_) self->finish(reason);
  });
}

Link::Gauges SocketLink::gauges() const noexcept {
  Gauges gauges;
  gauges.bytes_sent = bytes_sent_.load(std::memory_order_relaxed);
  gauges.bytes_received = bytes_received_.load(std::memory_order_relaxed);
  gauges.last_received = Clock::time_point(Clock::duration(last_received_.load(std::memory_order_relaxed)));
  const std::lock_guard lock(mutex_);
  gauges.queued_bytes = queued_bytes_;
  return gauges;
}

}  // namespace tendril::rpc::detail
