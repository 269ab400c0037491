// Writing: what waits for room, the queue, and the socket.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/thread_state.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::size_t kMaxBuffers = 64;  // of one sendmsg; more gains nothing
/// Bytes that a leader writes in one go: then others get their turn, above all those who read.
constexpr std::size_t kWriteBudget = std::size_t{1} << 20;

/// What is held back at most: the other side might as well begin. Large frames are not: they gain nothing.
constexpr std::size_t kMostHeldFrames = 32;
constexpr std::size_t kLargeFrame = std::size_t{16} << 10;
/// A request that is made so soon after another, while so many are not answered, is one of many.
constexpr int64_t kManyRequests = 8;
constexpr std::chrono::microseconds kSoon{20};
}  // namespace

bool SocketLink::has_room_locked(const Frame& request) const noexcept {
  return send_window_.open(request_cost(request.size()), request.message().depth) &&
         unfinished_bytes_locked() <= options_.max_queued_bytes;
}

bool SocketLink::send(Message&& message) {
  const bool request = message.kind == MessageKind::request;
  const bool answers = message.kind == MessageKind::reply || message.kind == MessageKind::error;
  if (message.kind == MessageKind::cancel) note_answered();
  FrameList one;
  one.emplace_back(std::move(message), options_.send_limits);
  const std::size_t size = one.front().size();
  std::unique_lock lock(mutex_);
  if (closed_) return false;
  if (request) {
    const uint8_t depth = one.front().message().depth;
    const bool others_first =
        depth == 0 ? !waiting_.empty()
                   : num_nested_waiting_ > 0 && std::any_of(waiting_.begin(), waiting_.end(), [&](const Frame& frame) {
                       return frame.message().depth >= depth;
                     });
    if (others_first || !has_room_locked(one.front())) {
      if (depth > 0) ++num_nested_waiting_;
      waiting_.splice(waiting_.end(), one);
      ask_for_connection_locked();
      num_waiting_.store(waiting_.size(), std::memory_order_relaxed);
      return true;
    }
    send_window_.sent(request_cost(size));
    unanswered_.fetch_add(1, std::memory_order_relaxed);
  }
  const bool holds = (request || answers) && may_hold_locked(request, size);
  queue_.splice(queue_.end(), one);
  queued_bytes_ += size;
  if (writing_ || !connected_) {
    ask_for_connection_locked();
    update_congestion_locked();
    return true;
  }
  if (!holds) write(lock);
  return true;
}

/// Of what is about to be queued. It leaves with what follows it soon, or when `write_held` is called, which is soon in
/// any case.
bool SocketLink::may_hold_locked(bool request, std::size_t size) {
  if (writing_ || !connected_ || size > kLargeFrame || queued_bytes_ > kLargeFrame) return false;
  bool floods = false;
  if (request && unanswered_.load(std::memory_order_relaxed) > kManyRequests) {
    const Clock::time_point now = Clock::now();
    floods = now - std::exchange(last_request_, now) < kSoon;
  }
  if (!loop_->may_hold_back(floods) || queue_.size() + 1 >= kMostHeldFrames) return false;
  if (!held_) held_ = loop_->hold_back(shared_from_this());
  return held_;
}

void SocketLink::write_held() {
  std::unique_lock lock(mutex_);
  held_ = false;
  if (!writing_ && !queue_.empty()) write(lock);
}

/// Requests for which there is room now move to the queue, and those who wait for them are told, without the lock.
void SocketLink::admit_waiting(std::unique_lock<std::mutex>& lock) {
  Waiters admitted;
  int closed_to = -1;  // the highest depth of which one has no room: the later ones of that depth wait behind it
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = at++;
    const int depth = next->message().depth;
    if (depth <= closed_to) continue;
    if (!has_room_locked(*next)) {
      if (num_nested_waiting_ == 0) break;
      closed_to = depth;
      continue;
    }
    send_window_.sent(request_cost(next->size()));
    queued_bytes_ += next->size();
    unanswered_.fetch_add(1, std::memory_order_relaxed);
    if (depth > 0) --num_nested_waiting_;
    if (auto waiter = waiters_.extract(next->message().call_id)) admitted.insert(std::move(waiter));
    queue_.splice(queue_.end(), waiting_, next);
  }
  num_waiting_.store(waiting_.size(), std::memory_order_relaxed);
  if (admitted.empty()) return;
  lock.unlock();
  for (const auto& [call_id, waiter] : admitted) waiter->try_set_value();
  lock.lock();
}

bool SocketLink::waits_for_room(uint64_t call_id) const noexcept {
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  return std::any_of(waiting_.rbegin(), waiting_.rend(),
                     [&](const Frame& frame) { return frame.message().call_id == call_id; });
}

void SocketLink::wait_for_room(uint64_t call_id, Clock::time_point deadline) {
  if (ThreadState::current().io_callbacks > 0) return;
  const Ref<FutureState<void>> left(new FutureState<void>(loop_.get()));
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(waiting_.rbegin(), waiting_.rend(),
                                    [&](const Frame& frame) { return frame.message().call_id == call_id; });
    if (found == waiting_.rend()) return;
    waiters_.insert_or_assign(call_id, left);
  }
  try {
    left->wait_until(deadline);  // where there is none: the peer is lost at some time, and the link with it
  } catch (const UsageError&) {  // this thread may not block: more waits here than should
  }
  const std::lock_guard lock(mutex_);
  waiters_.erase(call_id);
}

bool SocketLink::withdraw(uint64_t call_id) noexcept {
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return false;
  FrameList withdrawn;
  Ref<FutureState<void>> waiter;
  {
    std::unique_lock lock(mutex_);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Frame& frame) { return frame.message().call_id == call_id; });
    if (found == waiting_.end()) return false;
    if (found->message().depth > 0) --num_nested_waiting_;
    withdrawn.splice(withdrawn.end(), waiting_, found);
    num_waiting_.store(waiting_.size(), std::memory_order_relaxed);
    if (const auto node = waiters_.extract(call_id)) waiter = node.mapped();
    admit_waiting(lock);  // smaller ones may have waited behind it
    if (!writing_ && !queue_.empty()) write(lock);
  }
  if (waiter) waiter->try_set_value();
  return true;
}

/// Congestion starts above the limit and ends at half of it, so that its end is not reported for every message.
void SocketLink::update_congestion_locked() {
  const bool congested = congested_.load(std::memory_order_relaxed);
  if (!congested && unfinished_bytes_locked() > options_.max_queued_bytes && !closed_) {
    congested_.store(true, std::memory_order_relaxed);
  } else if (congested && unfinished_bytes_locked() <= options_.max_queued_bytes / 2) {
    congested_.store(false, std::memory_order_relaxed);
    loop_->post_io([self = shared_from_this()] {
      // A copy: it may close the link.
      if (const std::shared_ptr<LinkEvents> events = self->events_) events->uncongested(*self);
    });
  }
}

/// `lock` is held, nobody writes, and something is queued or left over. Leaves the rest to the leader if the socket is
/// full.
void SocketLink::write(std::unique_lock<std::mutex>& lock) {
  writing_ = true;
  const bool keeps = options_.grace.count() > 0;
  const auto say = [&] { return keeps ? received_.say() : 0; };
  std::size_t total = 0;
  for (;;) {
    if (!connected_ && !closed_) return stop_writing_locked();
    for (Frame& frame : queue_) {
      if (keeps && !Outgoing::goes_in_parts(frame)) frame.acknowledge(say());
    }
    if (keeps) sent_.taken(queue_.size());
    outgoing_.push(queue_);
    if (outgoing_.empty() || closed_) {
      FrameList dropped;
      outgoing_.give_back(dropped);
      queued_bytes_ = 0;
      writing_ = false;
      return;
    }
    lock.unlock();
    outgoing_.make_part(say);
    std::size_t written = 0, finished = 0;
    FrameList done;
    const bool took = write_once(written, finished, done);
    if (!keeps) done.clear();
    lock.lock();
    queued_bytes_ -= finished;
    if (keeps) done = sent_.written(done);
    update_congestion_locked();
    if (!waiting_.empty() && unfinished_bytes_locked() <= options_.max_queued_bytes / 2) admit_waiting(lock);
    total += written;
    if (took && (total < kWriteBudget || !ThreadState::current().leading)) continue;
    loop_->post_io([self = shared_from_this(), took] {
      if (took) return self->go_on_writing();
      self->waits_to_write_ = true;
      if (!self->started_) return;
      if (!self->watched_) return self->writable_or_lost(true);
      self->loop_->reactor().watch_writing(self->socket_.get());
    });
    return;  // writing_ stays set until then
  }
}

/// The leader's, for the writer that has left the rest to it. `lost`: it is not watched any more.
void SocketLink::writable_or_lost(bool lost) {
  waits_to_write_ = false;
  std::unique_lock lock(mutex_);
  if (lost && options_.grace.count() > 0) connected_ = false;
  if (lost && options_.grace.count() == 0) closed_ = true;
  write(lock);
}

/// Likewise, after others have had their turn.
void SocketLink::go_on_writing() {
  std::unique_lock lock(mutex_);
  write(lock);
}

/// False: the socket takes no more at present. Only the writer touches `outgoing_`. What was written whole goes to
/// `done`, and is counted in `finished` (Outgoing::written).
bool SocketLink::write_once(std::size_t& written, std::size_t& finished, FrameList& done) {
  std::array<ConstBuffer, kMaxBuffers> buffers;
  const std::size_t count = outgoing_.gather(buffers);
  std::size_t wanted = 0;
  std::array<iovec, kMaxBuffers> vectors;
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {const_cast<void*>(buffers[i].data), buffers[i].size};
    wanted += buffers[i].size;
  }
  msghdr header{};
  header.msg_iov = vectors.data();
  header.msg_iovlen = count;
  const ssize_t sent = tls_ ? tls_->write(vectors.data(), static_cast<int>(count))
                            : ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    write_failed(errno);
    return true;
  }
  bytes_sent_.fetch_add(static_cast<uint64_t>(sent), std::memory_order_relaxed);
  written = static_cast<std::size_t>(sent);
  finished = outgoing_.written(written, done);
  return written == wanted;
}

void SocketLink::write_failed(int error) noexcept {
  const auto reason =
      std::make_exception_ptr(PeerLostError("connection lost: " + std::system_category().message(error), true));
  {
    const std::lock_guard lock(mutex_);
    connected_ = false;
    if (options_.grace.count() == 0) {
      closed_ = true;
      if (!reason_) reason_ = reason;
    }
  }
  // What the peer sent before it went away is still read: the reading side reports the end, which comes at once where
  // the socket itself was in order (no memory, a record that could not be made).
  loop_->post_io([self = shared_from_this(), reason] {
    if (!self->watched_) return self->connection_lost(reason);
    const std::lock_guard lock(self->mutex_);
    if (!self->connected_) ::shutdown(self->socket_.get(), SHUT_RDWR);  // else this is another connection
  });
}

}  // namespace tendril::rpc::detail
