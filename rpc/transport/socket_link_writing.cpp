// Writing: requests that wait for room, the queue, and the stream.
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/thread.h"
#include "tendril/rpc/threads/thread_state.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::size_t kMaxBuffers = 64;  // of one sendmsg; more gains nothing
constexpr std::size_t kFewBuffers = 4;   // of most frames that go alone
/// Bytes that a leader writes in one go: then others get their turn, above all those who read.
constexpr std::size_t kWriteBudget = std::size_t{1} << 20;

/// What is held back at most: the other side might as well begin. Large frames are not: they gain nothing.
constexpr std::size_t kMostHeldFrames = 32;
constexpr std::size_t kLargeFrame = std::size_t{16} << 10;
/// A request that is made so soon after another, while so many are not answered, is one of many.
constexpr int64_t kManyRequests = 8;
constexpr std::chrono::microseconds kSoon{20};
}  // namespace

/// Small requests and large ones have a limit each on what is unfinished, so that neither waits for the other's room.
bool SocketLink::has_room_locked(const Frame& request) const noexcept {
  const uint64_t cost = request_cost(request.size());
  const uint8_t depth = request.depth();
  const FrameBytes unfinished = unfinished_locked();
  if (is_apart(request)) {
    return unfinished.large <= options_.max_queued_bytes && send_window_.open_large(cost, depth);
  }
  const uint64_t bytes = send_window_.large_apart() ? unfinished.small : unfinished.total();
  return bytes <= options_.max_queued_bytes && send_window_.open(cost, depth);
}

/// For room at the receiver, that is, not in the queue: it would wait for ever if small ones went on to take it.
bool SocketLink::large_waits_for_window_locked() const noexcept {
  return !waiting_large_.empty() && !send_window_.any_reserved() &&
         unfinished_locked().large <= options_.max_queued_bytes;
}

/// Others that wait are first: of its kind, and a large one for which the receiver has no room because of small ones.
bool SocketLink::must_wait_locked(const Frame& request) const noexcept {
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return !has_room_locked(request);
  const uint8_t depth = request.depth();
  if (is_apart(request)) return waiting_large_.is_before(depth) || !has_room_locked(request);
  return waiting_.is_before(depth) || (large_waits_for_window_locked() && waiting_large_.is_before(depth)) ||
         !has_room_locked(request);
}

void SocketLink::admitted_locked(const Frame& request) {
  const uint64_t cost = request_cost(request.size());
  if (is_apart(request)) {
    reserved_.push_back(request.call_id());
    send_window_.reserve(cost);
  } else {
    send_window_.sent(cost);
  }
  queued_.add(request);
  unanswered_.fetch_add(1, std::memory_order_relaxed);
}

/// The last part of a large request leaves: from here on it counts as the others. Not again if it is sent again.
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
    (is_apart(one.front()) ? waiting_large_ : waiting_).push(one);
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

/// Of what is about to be queued. It leaves with what follows it soon, or when `write_held` is called, which is soon in
/// any case.
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

/// Requests for which there is room now move to the queue, and those who wait for them are told, without the lock.
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
    if (!waiting_.withdraw(call_id, withdrawn) && !waiting_large_.withdraw(call_id, withdrawn)) return false;
    num_waiting_.store(waiting_.size() + waiting_large_.size(), std::memory_order_relaxed);
    if (const auto node = waiters_.extract(call_id)) waiter = node.mapped();
    admit_waiting(lock);  // smaller ones may have waited behind it
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
  } catch (...) {  // no memory: the changed elements must not be sent
    closed_ = true;
    if (!reason_) reason_ = std::current_exception();
    loop_->post_io([self = shared_from_this(), reason = reason_] { self->finish(reason); });
  }
}

/// Congestion starts above the limit and ends at half of it, so that its end is not reported for every message. One
/// large frame is none, and of several there may be twice the limit: small replies pass them.
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

/// As `write`, of one small frame and nothing else, as most are: it need not be put in order with others. What the
/// socket does not take at once, and what has come meanwhile, is for `write`.
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

/// Something has been written: there may be room for what waits.
void SocketLink::make_room(std::unique_lock<ShortMutex>& lock) {
  update_congestion_locked();
  if (num_waiting_.load(std::memory_order_relaxed) == 0) return;
  const FrameBytes unfinished = unfinished_locked();
  if (std::min(unfinished.small, unfinished.large) <= options_.max_queued_bytes / 2) admit_waiting(lock);
}

/// `lock` is held, nobody writes, and something is queued or left over. Leaves the rest to the leader if the socket is
/// full.
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

/// The leader's, for the writer that has left the rest to it. `lost`: it is not watched any more.
void SocketLink::writable_or_lost(bool lost) {
  waits_to_write_ = false;
  std::unique_lock lock(mutex_);
  if (lost && options_.terms.grace.count() > 0) connected_ = false;
  if (lost && options_.terms.grace.count() == 0) closed_ = true;
  write(lock);
}

/// Likewise, after others have had their turn.
void SocketLink::go_on_writing() {
  std::unique_lock lock(mutex_);
  write(lock);
}

/// False: the socket takes no more at present. Only the writer touches `outgoing_`. What was written whole goes to
/// `done`, and is counted in `finished` (Outgoing::written).
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

/// How many bytes the socket took; -1: none at present. 0: it was interrupted, or the connection is lost.
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
  } catch (...) {  // no memory
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
  // What the peer sent before it went away is still read: the reading side reports the end, which comes at once where
  // the socket itself was in order (no memory, a record that could not be made).
  try {
    loop_->post_io([self = shared_from_this(), reason] {
      if (!self->watched_) return self->connection_lost(reason);
      const std::lock_guard lock(self->mutex_);
      if (!self->connected_) self->stream_->end();  // else this is another connection
    });
  } catch (const std::bad_alloc&) {
    stream_->end();  // nothing replaces the connection while this thread is its writer
  }
}

}  // namespace tendril::rpc::detail
