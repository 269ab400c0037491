#pragma once

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <list>
#include <memory>
#include <mutex>

#include "tendril/rpc/detail/loop.h"
#include "tendril/rpc/detail/write_batch.h"
#include "tendril/rpc/future.h"
#include "tendril/rpc/link.h"
#include "tendril/rpc/wire.h"

namespace tendril::rpc::detail {

struct SocketLinkOptions {
  const char* transport = "unix";
  Limits send_limits, receive_limits;
  std::size_t max_queued_bytes = std::size_t{64} << 20;  ///< above it, senders wait
};

/// A link over a connected stream socket. Asio tells when the socket can be read or written; the bytes are moved by
/// system calls of our own, because Asio's composed operations move at most 64 KiB each.
class SocketLink final : public Link, public BatchedLink, public std::enable_shared_from_this<SocketLink> {
 public:
  /// Takes ownership of `socket`, after the handshake.
  SocketLink(Ref<Loop> loop, int socket, SocketLinkOptions options);
  ~SocketLink() override = default;

  void start(std::shared_ptr<LinkEvents> events) override;
  bool send(Message&& message) override;
  void set_reading(bool on) noexcept override;
  void close() noexcept override;
  const char* transport() const noexcept override { return options_.transport; }
  Gauges gauges() const noexcept override;
  void flush() noexcept override;  ///< the end of a batch

 private:
  // Reading: on the leader's thread only.
  void arm_read();
  void read_done(const boost::system::error_code& error, std::size_t bytes);
  bool read_directly();
  bool deliver(std::size_t bytes);
  void finish(std::exception_ptr reason);

  // Writing: by the one thread that set `writing_`.
  void wait_for_room();
  void write(std::unique_lock<std::mutex>& lock);
  bool write_once(std::list<Frame>& frames, std::size_t& offset, std::size_t& written);
  void write_failed(int error) noexcept;

  const Ref<Loop> loop_;
  const SocketLinkOptions options_;
  boost::asio::posix::stream_descriptor stream_;
  const int socket_;

  FrameReader reader_;
  std::shared_ptr<LinkEvents> events_;  // until `closed` was reported
  bool read_armed_ = false;
  std::atomic<bool> reading_{true};
  std::atomic<uint64_t> bytes_received_{0}, bytes_sent_{0};
  std::atomic<Clock::rep> last_received_;

  mutable std::mutex mutex_;
  std::list<Frame> queue_;        // not yet in the writer's hands
  std::size_t queued_bytes_ = 0;  // in queue_ and current_
  std::list<Frame> current_;      // the writer's
  std::size_t offset_ = 0;        // of the front of current_: bytes written
  bool writing_ = false;          // some thread writes, or the leader will when the socket takes more
  bool in_batch_ = false;         // a WriteBatch will flush
  bool closed_ = false;           // no message is taken any more
  std::exception_ptr reason_;     // why, if not by close()
  Ref<FutureState<void>> room_;   // senders wait for it; completed when the queue has shrunk
};

}  // namespace tendril::rpc::detail
