#pragma once

#include <sys/types.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "tendril/rpc/future.h"
#include "tendril/rpc/threads/loop.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/transport/connection_state.h"
#include "tendril/rpc/transport/flow_control.h"
#include "tendril/rpc/transport/link.h"
#include "tendril/rpc/transport/outgoing.h"
#include "tendril/rpc/transport/sent_frames.h"
#include "tendril/rpc/transport/stream.h"
#include "tendril/rpc/transport/waiting_requests.h"
#include "tendril/rpc/wire/wire.h"

namespace tendril::rpc::detail {

struct SocketLinkOptions {
  Limits send_limits, receive_limits;
  uint64_t send_window = uint64_t{256} << 20, receive_window = uint64_t{256} << 20;  ///< flow_control.h
  /// If more is queued, requests wait. Large requests that are counted separately have the same limit once more.
  std::size_t max_queued_bytes = std::size_t{64} << 20;
  /// The connection ends if no byte arrives for this long in the middle of a message; 0 = never.
  std::chrono::milliseconds stall_timeout{0};
  ConnectionState::Terms terms = {};  ///< the two workers, and how long to wait for another connection
  bool dialled = false;               ///< this side made the first connection
};

/// A link over connected streams, one after the other: when a connection is lost, frames that the peer has not
/// received are kept and sent over the next one (sent_frames.h). The loop's reactor reports when the stream is readable
/// or writable. A message may be held for a moment, so that it leaves together with the next ones (held_sends.h).
class SocketLink final : public Link,
                         public Reactor::Watched,
                         public HeldSends::Sender,
                         public std::enable_shared_from_this<SocketLink> {
 public:
  /// Starts with a connection, after its handshake.
  SocketLink(Ref<Loop> loop, std::unique_ptr<Stream> connection, SocketLinkOptions options);
  /// Starts without a connection, and asks for one (LinkEvents::disconnected) when there is something to send.
  SocketLink(Ref<Loop> loop, SocketLinkOptions options);
  ~SocketLink() override = default;

  void start(std::shared_ptr<LinkEvents> events) override;
  bool send(Message&& message) override;
  bool waits_for_room(uint64_t call_id) const noexcept override;
  void wait_for_room(uint64_t call_id, Clock::time_point deadline) override;
  bool withdraw(uint64_t call_id) noexcept override;
  void call_ended(const std::shared_ptr<SentTensors>& tensors) noexcept override;
  void request_started(uint64_t cost) noexcept override;
  bool congested() const noexcept override { return congested_.load(std::memory_order_relaxed); }
  const Limits& peer_limits() const noexcept override { return options_.send_limits; }
  bool replace_connection(Clock::time_point ends, std::exception_ptr reason) override;
  void close() noexcept override;
  const char* transport() const noexcept override {
    const char* const now = transport_.load(std::memory_order_relaxed);
    return now ? now : "none";
  }
  uint32_t session() const noexcept override { return session_.load(std::memory_order_relaxed); }
  int peer_process() const noexcept override { return peer_process_.load(std::memory_order_relaxed); }
  Gauges gauges() const noexcept override;

  // On the leader's thread only.
  bool has_started() const noexcept { return started_; }
  ConnectionState& state() noexcept { return state_; }
  bool can_resume() const noexcept { return events_ && state_.can_reconnect(); }
  /// Ends the connection, if it has not been lost yet; `why` is the reason if no other one follows. From then on
  /// `frames_received` does not change.
  void disconnect(const char* why);
  uint64_t frames_received() const noexcept { return received_.count(); }
  uint64_t frames_known_received() const;  ///< by the peer, according to its last acknowledgement
  /// Continues over another connection, whose other side has received `received_by_peer` frames. Call it after
  /// `disconnect`.
  void resume(std::unique_ptr<Stream> connection, uint64_t received_by_peer);

 private:
  using Waiters = std::unordered_map<uint64_t, Ref<FutureState<void>>>;

  bool ready(uint32_t events) override;
  bool may_read_again() const noexcept override { return true; }
  void failed(std::exception_ptr error) noexcept override;
  void write_held() override;

  // Reading: on the leader's thread only.
  void watch();
  void unwatch();
  bool read(bool until_empty);
  void read_soon();
  bool deliver(std::size_t bytes);
  void count_frame(const Message& message);
  void credit_received(const Message& message);
  void watch_for_stall();
  void connection_lost(std::exception_ptr reason);
  void wait_for_connection(std::exception_ptr reason);
  void connection_wanted();
  void finish(std::exception_ptr reason);
  void take_connection(std::unique_ptr<Stream> connection);

  // Writing: only by the thread that set `writing_`.
  /// Approximate: a cancelled call may have been answered, too.
  void note_answered() noexcept {
    if (unanswered_.load(std::memory_order_relaxed) > 0) unanswered_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool counted_separately(const Frame& request) const noexcept {
    return send_window_.large_apart() && request.goes_in_parts();
  }
  bool has_room_locked(const Frame& request) const noexcept;
  bool must_wait_locked(const Frame& request) const noexcept;
  bool large_waits_for_window_locked() const noexcept;
  void admitted_locked(const Frame& request);
  void count_reserved_locked(const Frame& request) noexcept;
  void admit_waiting(std::unique_lock<ShortMutex>& lock);
  void update_congestion_locked();
  void write(std::unique_lock<ShortMutex>& lock);
  void write_alone(std::unique_lock<ShortMutex>& lock);
  void make_room(std::unique_lock<ShortMutex>& lock);
  bool write_once(std::size_t& written, FrameBytes& finished, FrameList& done);
  ssize_t send_now(std::span<const ConstBuffer> buffers) noexcept;
  void write_failed(int error) noexcept;
  bool may_hold_locked(bool request, std::size_t size);
  void writable_or_lost(bool lost);
  void go_on_writing();
  void stop_writing_locked();
  void ask_for_connection_locked();
  FrameBytes unfinished_locked() const noexcept { return FrameBytes(queued_) += sent_.bytes(); }
  void count_queue_locked() noexcept;
  bool replace_changed_locked(FrameList::iterator end, std::vector<uint64_t>& not_sent);

  const Ref<Loop> loop_;
  const SocketLinkOptions options_;
  std::unique_ptr<Stream> stream_;               // changes only while no thread writes
  std::atomic<const char*> transport_{nullptr};  // null: there never was a connection

  std::atomic<int> peer_process_{0};
  std::atomic<uint32_t> session_;

  ConnectionState state_;  // used by the leader only
  bool started_ = false;   // used by the leader only
  Timer grace_timer_;
  FrameReader reader_;
  std::shared_ptr<LinkEvents> events_;  // until `closed` was reported
  bool watched_ = false;                // the reactor watches the stream
  bool waits_to_write_ = false;         // used by the leader only: the writer waits until the stream is writable
  Timer stall_timer_;
  uint64_t watched_bytes_ = 0;
  ReceiveWindow receive_window_;
  std::atomic<uint64_t> bytes_received_{0}, bytes_sent_{0};
  std::atomic<Clock::rep> last_received_;
  ReceivedFrames received_;
  uint32_t acknowledged_ = 0;  // used by the leader only: the peer's last acknowledgement

  mutable ShortMutex mutex_;
  SendWindow send_window_;
  std::vector<uint64_t> reserved_;           // calls whose large requests are reserved in send_window_
  WaitingRequests waiting_, waiting_large_;  // requests without room; large ones that are counted separately
  std::atomic<std::size_t> num_waiting_{0};  // in both; changed under the lock
  Waiters waiters_;                          // threads whose request waits there, by call id
  FrameList queue_;                          // frames that the writer has not taken yet
  FrameBytes queued_;                        // sizes of the frames in queue_ and outgoing_
  std::atomic<bool> congested_{false};       // changed under the lock
  SentFrames sent_;                          // empty if the session cannot be resumed
  Outgoing outgoing_;                        // used by the writer only
  bool held_ = false;                        // the queue is written a little later (held_sends.h)
  Clock::time_point last_request_{};         // maintained while many requests are unanswered
  std::atomic<int64_t> unanswered_{0};       // requests sent and not answered; approximate
  bool reads_tensors_ = false;               // the writer reads tensors' elements, without the lock
  bool writing_ = false;                     // a thread writes, or the leader will once the stream is writable
  bool connected_ = true;                    // bytes can be written
  bool connection_requested_ = false;        // the first connection has been asked for
  bool closed_ = false;                      // no further message is accepted
  std::exception_ptr reason_;                // why it is closed, if not by close()
};

}  // namespace tendril::rpc::detail
