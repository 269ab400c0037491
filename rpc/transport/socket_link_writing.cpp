// Writing: requests that wait for room, the queue, and the stream.
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/system/thread_state.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::size_t kMaxBuffers = 64;  // per sendmsg; more gains nothing
constexpr std::size_t kFewBuffers = 4;   // enough for most frames that leave alone
/// Bytes that a leader writes at a time before other links, above all reading ones, get their turn.
constexpr std::size_t kWriteBudget = std::size_t{1} << 20;

/// At most this many frames are held back: the other side might as well begin. Larger frames than kLargeFrame gain
/// nothing, and are not held back.
constexpr std::size_t kMostHeldFrames = 32;
constexpr std::size_t kLargeFrame = std::size_t{16} << 10;
/// A request made within kSoon of another while more than kManyRequests are unanswered counts as one of many.
constexpr int64_t kManyRequests = 8;
constexpr std::chrono::microseconds kSoon{20};
}  // namespace

/// Small and large requests have separate limits on unfinished bytes, so that neither kind uses up the room of the
/// other.
bool SocketLink::has_room_locked(const Frame& request) const noexcept {
  const uint64_t cost = request_cost(request.size());
  const uint8_t depth = request.depth();
  const FrameBytes unfinished = unfinished_locked();
  if (counted_separately(request)) {
    return unfinished.large <= options_.max_queued_bytes && send_window_.open_large(cost, depth);
  }
  const uint64_t bytes = send_window_.large_apart() ? unfinished.small : unfinished.total();
  return bytes <= options_.max_queued_bytes && send_window_.open(cost, depth);
}

/// Whether a large request waits for room at the receiver rather than in the queue. Small requests must then wait
/// behind it, or they would keep using up the room.
bool SocketLink::large_waits_for_window_locked() const noexcept {
  return !waiting_large_.empty() && !send_window_.any_reserved() &&
         unfinished_locked().large <= options_.max_queued_bytes;
}

/// A request waits behind others of the same size class, and behind a large one for which small ones leave no room at
/// the receiver.
bool SocketLink::must_wait_locked(const Frame& request) const noexcept {
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return !has_room_locked(request);
  const uint8_t depth = request.depth();
  if (counted_separately(request)) return waiting_large_.is_before(depth) || !has_room_locked(request);
  return waiting_.is_before(depth) || (large_waits_for_window_locked() && waiting_large_.is_before(depth)) ||
         !has_room_locked(request);
}

void SocketLink::admitted_locked(const Frame& request) {
  const uint64_t cost = request_cost(request.size());
  if (counted_separately(request)) {
    reserved_.push_back(request.call_id());
    send_window_.reserve(cost);
  } else {
    send_window_.sent(cost);
  }
  queued_.add(request);
  unanswered_.fetch_add(1, std::memory_order_relaxed);
}

/// Counts a large request, whose last part now leaves, like other requests. Does nothing if it is sent again later.
void SocketLink::count_reserved_locked(const Frame& request) noexcept {
  const auto found = std::find(reserved_.begin(), reserved_.end(), request.call_id());
  if (found == reserved_.end() || request.kind() != MessageKind::request) return;
  reserved_.erase(found);
  send_window_.reserved_left(request_cost(request.size()));
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
  if (request) one.front().share_tensors();
  if (request && must_wait_locked(one.front())) {
    (counted_separately(one.front()) ? waiting_large_ : waiting_).push(one);
    ask_for_connection_locked();
    num_waiting_.store(waiting_.size() + waiting_large_.size(), std::memory_order_relaxed);
    return true;
  }
  const bool holds = (request || answers) && may_hold_locked(request, size);
  if (request) {
    admitted_locked(one.front());
  } else {
    queued_.add(one.front());
  }
  queue_.splice(queue_.end(), one);
  if (writing_ || !connected_) {
    ask_for_connection_locked();
    update_congestion_locked();
    return true;
  }
  if (holds) return true;
  if (queue_.size() > 1 || size > kLargeFrame) {
    write(lock);
  } else {
    write_alone(lock);
  }
  return true;
}

/// Whether a frame about to be queued may be held back. It leaves together with the next frames, or when `write_held`
/// is called, which always happens soon.
bool SocketLink::may_hold_locked(bool request, std::size_t size) {
  if (writing_ || !connected_ || size > kLargeFrame || queued_.total() > kLargeFrame) return false;
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

/// Moves requests for which there is now room to the queue, and wakes the threads that wait for them, without the lock.
void SocketLink::admit_waiting(std::unique_lock<ShortMutex>& lock) {
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return;
  Waiters admitted;
  const auto admit = [&](const Frame& request) {
    if (!has_room_locked(request)) return false;
    admitted_locked(request);
    if (auto waiter = waiters_.extract(request.call_id())) admitted.insert(std::move(waiter));
    return true;
  };
  waiting_large_.admit(queue_, -1, admit);
  waiting_.admit(queue_, large_waits_for_window_locked() ? waiting_large_.greatest_depth() : -1, admit);
  num_waiting_.store(waiting_.size() + waiting_large_.size(), std::memory_order_relaxed);
  if (admitted.empty()) return;
  lock.unlock();
  for (const auto& [call_id, waiter] : admitted) waiter->try_set_value();
  lock.lock();
}

bool SocketLink::waits_for_room(uint64_t call_id) const noexcept {
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(mutex_);
  return waiting_.contains(call_id) || waiting_large_.contains(call_id);
}

void SocketLink::wait_for_room(uint64_t call_id, Clock::time_point deadline) {
  if (ThreadState::current().io_callbacks > 0) return;
  const Ref<FutureState<void>> left(new FutureState<void>(loop_.get()));
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.contains(call_id) && !waiting_large_.contains(call_id)) return;
    waiters_.insert_or_assign(call_id, left);
  }
  try {
    left->wait_until(deadline);  // without one, the wait ends with the peer's loss, which ends the link
  } catch (const UsageError&) {  // this thread may not block: more requests wait here than should
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
    if (!waiting_.withdraw(call_id, withdrawn) && !waiting_large_.withdraw(call_id, withdrawn)) return false;
    num_waiting_.store(waiting_.size() + waiting_large_.size(), std::memory_order_relaxed);
    if (const auto node = waiters_.extract(call_id)) waiter = node.mapped();
    admit_waiting(lock);  // smaller requests may have waited behind it
    if (!writing_ && !queue_.empty()) write(lock);
  }
  if (waiter) waiter->try_set_value();
  return true;
}

void SocketLink::call_ended(const std::shared_ptr<SentTensors>& tensors) noexcept {
  if (tensors.use_count() == 1) return;  // the frame has been written
  std::unique_lock lock(mutex_);
  while (reads_tensors_) {  // until a non-blocking system call returns
    lock.unlock();
    sleep_for(std::chrono::microseconds(20));
    lock.lock();
  }
  tensors->call_ended = true;
  try {
    tensors->copy();
  } catch (...) {  // out of memory: the changed elements must not be sent
    closed_ = true;
    if (!reason_) reason_ = std::current_exception();
    loop_->post_io([self = shared_from_this(), reason = reason_] { self->finish(reason); });
  }
}

/// Congestion starts above the limit and ends at half of it, so that its end is not reported for every message. One
/// large frame does not count, and several may take twice the limit: small replies pass them.
void SocketLink::update_congestion_locked() {
  const bool congested = congested_.load(std::memory_order_relaxed);
  const FrameBytes unfinished = unfinished_locked();
  const uint64_t large = unfinished.large_frames > 1 ? unfinished.large / 2 : 0;
  const uint64_t most = std::max(unfinished.small, large);
  if (!congested && most > options_.max_queued_bytes && !closed_) {
    congested_.store(true, std::memory_order_relaxed);
  } else if (congested && most <= options_.max_queued_bytes / 2) {
    congested_.store(false, std::memory_order_relaxed);
    loop_->post_io([self = shared_from_this()] {
      // A copy: it may close the link.
      if (const std::shared_ptr<LinkEvents> events = self->events_) events->uncongested(*self);
    });
  }
}

/// A faster `write` for the usual case of a single small frame, which needs no ordering with others. Leaves the rest to
/// `write` if the socket does not take all of it, or if other frames were queued meanwhile.
void SocketLink::write_alone(std::unique_lock<ShortMutex>& lock) {
  writing_ = true;
  const bool keeps = options_.terms.grace.count() > 0;
  FrameList one, done;
  one.swap(queue_);
  Frame& frame = one.front();
  const std::size_t size = frame.size();
  if (keeps) {
    frame.acknowledge(received_.say());
    sent_.taken(1);
  }
  reads_tensors_ = true;
  lock.unlock();
  std::array<ConstBuffer, kFewBuffers> buffers;
  const ssize_t sent = send_now(std::span(buffers).first(frame.gather(0, buffers)));
  const bool whole = sent == static_cast<ssize_t>(size);
  if (whole && !keeps) one.clear();
  if (!whole) {
    outgoing_.push(one);
    outgoing_.written(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)), done);
  }
  lock.lock();
  reads_tensors_ = false;
  if (whole) {
    queued_.small -= size;
    if (keeps) done = sent_.written(one);
    make_room(lock);
  }
  if (!whole || !queue_.empty() || closed_ || !connected_) return write(lock);
  writing_ = false;
}

/// Called after something was written: there may be room for waiting requests.
void SocketLink::make_room(std::unique_lock<ShortMutex>& lock) {
  update_congestion_locked();
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return;
  const FrameBytes unfinished = unfinished_locked();
  if (std::min(unfinished.small, unfinished.large) <= options_.max_queued_bytes / 2) admit_waiting(lock);
}

/// Writes the queue. `lock` is held, no other thread writes, and something is queued or left over. Leaves the rest to
/// the leader if the socket is full.
void SocketLink::write(std::unique_lock<ShortMutex>& lock) {
  writing_ = true;
  const bool keeps = options_.terms.grace.count() > 0;
  const auto say = [&] { return keeps ? received_.say() : 0; };
  std::size_t total = 0;
  for (;;) {
    if (!connected_ && !closed_) return stop_writing_locked();
    for (Frame& frame : queue_) {
      if (keeps && !frame.goes_in_parts()) frame.acknowledge(say());
    }
    if (keeps) sent_.taken(queue_.size());
    outgoing_.push(queue_);
    if (outgoing_.empty() || closed_) {
      FrameList dropped;
      if (!outgoing_.empty()) outgoing_.give_back(dropped);
      queued_ = {};
      writing_ = false;
      return;
    }
    if (const Frame* const ends = outgoing_.last_part_due()) count_reserved_locked(*ends);
    reads_tensors_ = true;
    lock.unlock();
    outgoing_.make_part(say);
    std::size_t written = 0;
    FrameBytes finished;
    FrameList done;
    const bool took = write_once(written, finished, done);
    if (!keeps) done.clear();
    lock.lock();
    reads_tensors_ = false;
    queued_ -= finished;
    if (keeps) done = sent_.written(done);
    make_room(lock);
    total += written;
    if (took && (total < kWriteBudget || !ThreadState::current().leading)) continue;
    loop_->post_io([self = shared_from_this(), took] {
      if (took) return self->go_on_writing();
      self->waits_to_write_ = true;
      if (!self->started_) return;
      if (!self->watched_) return self->writable_or_lost(true);
      self->loop_->reactor().watch_writing(self->stream_->descriptor());
    });
    return;  // writing_ stays set until then
  }
}

/// Continues on the leader's thread for a writer that left the rest to it. `lost`: the stream is no longer watched.
void SocketLink::writable_or_lost(bool lost) {
  waits_to_write_ = false;
  std::unique_lock lock(mutex_);
  if (lost && options_.terms.grace.count() > 0) connected_ = false;
  if (lost && options_.terms.grace.count() == 0) closed_ = true;
  write(lock);
}

/// Likewise, after other links have had their turn.
void SocketLink::go_on_writing() {
  std::unique_lock lock(mutex_);
  write(lock);
}

/// Returns false if the socket takes no more at present. Only the writer uses `outgoing_`. Completely written frames
/// move to `done`, and are counted in `finished` (Outgoing::written).
bool SocketLink::write_once(std::size_t& written, FrameBytes& finished, FrameList& done) {
  std::array<ConstBuffer, kMaxBuffers> buffers;
  const auto all = std::span(buffers).first(outgoing_.gather(buffers));
  std::size_t wanted = 0;
  for (const ConstBuffer& buffer : all) wanted += buffer.size;
  const ssize_t sent = send_now(all);
  if (sent <= 0) return sent == 0;
  written = static_cast<std::size_t>(sent);
  finished = outgoing_.written(written, done);
  return written == wanted;
}

/// Returns how many bytes the socket took; -1: none at present; 0: interrupted, or the connection is lost.
ssize_t SocketLink::send_now(std::span<const ConstBuffer> buffers) noexcept {
  std::array<iovec, kMaxBuffers> vectors;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    vectors[i] = {const_cast<void*>(buffers[i].data), buffers[i].size};
  }
  const ssize_t sent = stream_->write(vectors.data(), static_cast<int>(buffers.size()));
  if (sent < 0) {
    if (errno == EINTR) return 0;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return -1;
    write_failed(errno);
    return 0;
  }
  bytes_sent_.fetch_add(static_cast<uint64_t>(sent), std::memory_order_relaxed);
  return sent;
}

void SocketLink::write_failed(int error) noexcept {
  std::exception_ptr reason;
  try {
    reason = std::make_exception_ptr(PeerLostError("connection lost: " + std::system_category().message(error), true));
  } catch (...) {  // out of memory
    reason = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    connected_ = false;
    if (options_.terms.grace.count() == 0) {
      closed_ = true;
      if (!reason_) reason_ = reason;
    }
  }
  // Data that the peer sent before it ended is still read: the reading side reports the end. If the socket itself was
  // intact (out of memory, or a record could not be made), `end` makes that happen at once.
  try {
    loop_->post_io([self = shared_from_this(), reason] {
      if (!self->watched_) return self->connection_lost(reason);
      const std::lock_guard lock(self->mutex_);
      if (!self->connected_) self->stream_->end();  // otherwise this is another connection
    });
  } catch (const std::bad_alloc&) {
    stream_->end();  // nothing replaces the connection while this thread is its writer
  }
}

}  // namespace tendril::rpc::detail
