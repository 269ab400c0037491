// Replaces lost connections: carries out the decisions of transport/connection_state.h.
#include <algorithm>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/socket_link.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

/// Called on the leader's thread only.
void SocketLink::connection_lost(std::exception_ptr reason) {
  if (!events_) return;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      if (reason_) reason = reason_;
      state_.goodbye();
    } else if (state_.resumable()) {
      connected_ = false;
    }
  }
  switch (state_.lost(Clock::now())) {
    case ConnectionState::Loss::known:
      return;
    case ConnectionState::Loss::end:
      return finish(std::move(reason));
    case ConnectionState::Loss::wait:
      return wait_for_connection(std::move(reason));
  }
}

bool SocketLink::replace_connection(Clock::time_point ends, std::exception_ptr reason) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || !events_ || state_.stalled(ends) != ConnectionState::Loss::wait) return false;
    connected_ = false;
  }
  wait_for_connection(std::move(reason));
  return true;
}

/// Waits for another connection until the grace timer expires; then ends the link with `reason`.
void SocketLink::wait_for_connection(std::exception_ptr reason) {
  reader_ = FrameReader(options_.receive_limits);  // an incomplete frame is sent again as a whole
  stream_->end();
  stall_timer_.cancel();
  unwatch();
  grace_timer_.call_at(state_.grace_ends(), [self = shared_from_this(), connection = state_.connection(), reason] {
    if (self->state_.grace_over(connection)) self->finish(reason);
  });
  const std::shared_ptr<LinkEvents> events = events_;  // a copy: it may close the link
  events->disconnected(*this);
}

/// Asks for the first connection once there is something to send. If it cannot be made, the connector ends the session.
void SocketLink::connection_wanted() {
  {
    const std::lock_guard lock(mutex_);
    if (!connection_requested_ || !events_ || !state_.wanted()) return;
  }
  const std::shared_ptr<LinkEvents> events = events_;  // a copy: it may close the link
  events->disconnected(*this);
}

void SocketLink::ask_for_connection_locked() {
  if (connected_ || connection_requested_ || transport_.load(std::memory_order_relaxed) != nullptr) return;
  connection_requested_ = true;
  loop_->post_io([self = shared_from_this()] { self->connection_wanted(); });
}

uint64_t SocketLink::frames_known_received() const {
  const std::lock_guard lock(mutex_);
  return sent_.received();
}

void SocketLink::disconnect(const char* why) {
  if (!state_.begun()) return;
  connection_lost(std::make_exception_ptr(PeerLostError(std::string("connection lost: ") + why, true)));
}

/// Ends the writer's work on a connection. Frames that were not completely written are sent again over the next one.
void SocketLink::stop_writing_locked() {
  outgoing_.give_back(queue_);
  count_queue_locked();
  sent_.stopped();
  writing_ = false;
}

/// Recomputes `queued_` from the queue alone: no thread may be writing.
void SocketLink::count_queue_locked() noexcept {
  queued_ = {};
  for (const Frame& frame : queue_) queued_.add(frame);
}

void SocketLink::resume(std::unique_ptr<Stream> connection, uint64_t received_by_peer) {
  if (!events_) return;
  FrameList done;  // destroyed without the lock
  std::vector<uint64_t> not_sent;
  std::unique_lock lock(mutex_);
  if (writing_) {  // the writer is about to notice that its socket has been shut down
    return loop_->post_io([self = shared_from_this(),
                           held = std::make_shared<std::unique_ptr<Stream>>(std::move(connection)), received_by_peer,
                           resumption = state_.resumption()] {
      if (resumption == self->state_.resumption()) self->resume(std::move(*held), received_by_peer);
    });
  }
  if (closed_ || !state_.resumed()) return;
  const auto not_sent_before = queue_.begin();
  try {
    done = sent_.resumed(received_by_peer, queue_);
    if (!replace_changed_locked(not_sent_before, not_sent)) {
      throw PeerLostError("connection lost: references were in flight with tensors that have been changed since", true);
    }
  } catch (...) {
    lock.unlock();
    return finish(std::current_exception());
  }
  count_queue_locked();
  session_.store(state_.session(), std::memory_order_relaxed);
  grace_timer_.cancel();
  take_connection(std::move(connection));
  last_received_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  update_congestion_locked();
  admit_waiting(lock);
  if (!queue_.empty() && !writing_) write(lock);
  lock.unlock();
  const std::shared_ptr<LinkEvents> events = events_;
  for (const uint64_t call_id : not_sent) {
    events->not_sent_again(
        *this, call_id,
        std::make_exception_ptr(
            PeerLostError("the connection was lost while the call was in flight, and its tensors have been changed "
                          "since, so it could not be sent again",
                          false)));
  }
  if (events_) watch();
}

/// Replaces frames before `end`, which are to be written again, whose tensors have been changed since: a reply by an
/// error, a request by a ping, so that the frame count stays the same. Returns false if that would lose a reference.
bool SocketLink::replace_changed_locked(FrameList::iterator end, std::vector<uint64_t>& not_sent) {
  for (auto at = queue_.begin(); at != end; ++at) {
    if (at->unchanged()) continue;
    if (at->brings_references()) return false;
    at->recall();
    Message instead;
    if (at->kind() == MessageKind::request) {
      count_reserved_locked(*at);
      send_window_.not_sent(request_cost(at->size()));
      not_sent.push_back(at->call_id());
      instead.kind = MessageKind::ping;
    } else {
      instead = error_message(
          std::make_exception_ptr(PeerLostError("the connection was lost while the result was in flight, and its "
                                                "tensors have been changed since, so it could not be sent again",
                                                true)),
          options_.send_limits.max_payload_bytes);
      instead.call_id = at->call_id();
    }
    *at = Frame(std::move(instead), options_.send_limits);
  }
  return true;
}

}  // namespace tendril::rpc::detail
