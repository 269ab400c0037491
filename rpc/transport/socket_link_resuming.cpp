// What happens between two connections.
#include <sys/socket.h>

#include <algorithm>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/socket_link.h"
#include "tendril/rpc/wire/error_message.h"

namespace tendril::rpc::detail {

/// The leader's.
void SocketLink::connection_lost(std::exception_ptr reason) {
  if (!events_) return;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      if (reason_) reason = reason_;
      grace_ = std::chrono::milliseconds(0);
    } else if (grace_.count() > 0) {
      connected_ = false;
    }
  }
  if (grace_.count() == 0) return finish(std::move(reason));
  if (lost_) return;  // that is known
  lost_ = true;
  ++connection_;
  read_armed_ = false;
  reader_ = FrameReader(options_.receive_limits);  // half a frame comes again as a whole
  ::shutdown(socket_, SHUT_RDWR);
  stream_.cancel();
  stall_timer_.cancel();
  grace_timer_.expires_after(grace_);
  grace_timer_.async_wait(
      [self = shared_from_this(), connection = connection_, reason](const boost::system::error_code& error) {
        if (!error && connection == self->connection_) self->finish(reason);
      });
  const std::shared_ptr<LinkEvents> events = events_;  // a copy: it may close the link
  events->disconnected(*this);
}

void SocketLink::disconnect() {
  ++resumption_;  // one that has not happened yet must not: what came over that connection would be counted
  connection_lost(std::make_exception_ptr(PeerLostError("connection lost: the peer has opened another", true)));
}

/// The writer's last act on a connection: what has not left as a whole leaves as a whole over the next one.
void SocketLink::stop_writing_locked() {
  queue_.splice(queue_.begin(), current_);
  queued_bytes_ += offset_;
  offset_ = 0;
  sent_.stopped();
  writing_ = false;
}

void SocketLink::resume(UniqueFd socket, uint64_t received_by_peer) {
  if (!events_) return;
  std::list<Frame> done;  // ends without the lock
  std::vector<uint64_t> not_sent;
  std::unique_lock lock(mutex_);
  if (writing_) {  // it is about to notice that its socket is shut down
    return loop_->post_io([self = shared_from_this(), held = std::make_shared<UniqueFd>(std::move(socket)),
                           received_by_peer, resumption = resumption_] {
      if (resumption == self->resumption_) self->resume(std::move(*held), received_by_peer);
    });
  }
  if (closed_ || !lost_) return;
  const auto not_sent_before = queue_.begin();
  try {
    done = sent_.resumed(received_by_peer, queue_);
    if (!replace_changed_locked(not_sent_before, not_sent)) {
      throw PeerLostError("connection lost: references were on their way with tensors that have been changed since",
                          true);
    }
  } catch (...) {
    lock.unlock();
    return finish(std::current_exception());
  }
  queued_bytes_ = 0;
  for (const Frame& frame : queue_) queued_bytes_ += frame.size();
  grace_timer_.cancel();
  stream_.close();
  stream_.assign(socket.release());
  socket_ = stream_.native_handle();
  stream_.native_non_blocking(true);
  last_received_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  lost_ = false;
  connected_ = true;
  update_congestion_locked();
  admit_waiting(lock);
  if (!queue_.empty() && !writing_) write(lock);
  lock.unlock();
  const std::shared_ptr<LinkEvents> events = events_;
  for (const uint64_t call_id : not_sent) {
    events->not_sent_again(
        *this, call_id,
        std::make_exception_ptr(
            PeerLostError("the connection was lost while the call was on its way, and its tensors have been changed "
                          "since, so that it could not be sent again",
                          false)));
  }
  if (events_) arm_read();
}

/// Frames that are to be written again, those before `end`, of which tensors have been changed since: a reply becomes
/// an error, a request a ping, so that the count of frames stays what it is. False: that would lose a reference.
bool SocketLink::replace_changed_locked(std::list<Frame>::iterator end, std::vector<uint64_t>& not_sent) {
  for (auto at = queue_.begin(); at != end; ++at) {
    if (at->unchanged()) continue;
    const Message& message = at->message();
    if (!message.forks.empty()) return false;
    Message instead;
    if (message.kind == MessageKind::request) {
      send_window_.not_sent(request_cost(at->size()));
      not_sent.push_back(message.call_id);
      instead.kind = MessageKind::ping;
    } else {
      instead = error_message(
          std::make_exception_ptr(PeerLostError("the connection was lost while the result was on its way, and its "
                                                "tensors have been changed since, so that it could not be sent again",
                                                true)),
          options_.send_limits.max_payload_bytes);
      instead.call_id = message.call_id;
    }
    *at = Frame(std::move(instead), options_.send_limits);
  }
  return true;
}

}  // namespace tendril::rpc::detail
