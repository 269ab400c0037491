#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "tendril/rpc/launch/rendezvous.h"
#include "tendril/rpc/session/proof.h"
#include "tendril/rpc/shared_key.h"

namespace tendril::rpc::detail {

/// A worker's connection to the rendezvous. It has no thread: the calling one moves the bytes. Used by one thread at a
/// time. Failures of the group throw as throw_group_failure says, the loss of rank 0 as PeerLostError. After a failure
/// there is nothing to take part in any more: whatever is asked then throws the same again, at once.
class RendezvousClient {
 public:
  struct Options {
    boost::asio::ip::tcp::endpoint address;
    WorkerInfo self;
    int world_size = 0;
    std::chrono::milliseconds timeout{0};  ///< for all workers to join
    std::string group;                     ///< rank 0: the id that its host has, so that nobody else takes its place
    SharedKey key;                         ///< proven to rank 0, and by it
  };

  /// Connects, trying again until somebody answers there, and returns when all workers have joined. Throws ProofError
  /// where rank 0 has another key.
  explicit RendezvousClient(const Options& options);
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  const std::string& group() const noexcept { return group_; }               ///< the id that all workers share
  const std::vector<std::string>& names() const noexcept { return names_; }  ///< by rank

  /// The two ends of the connection.
  const boost::asio::ip::address& local_address() const noexcept { return local_address_; }
  const boost::asio::ip::address& rank_0_address() const noexcept { return rank_0_address_; }

  /// Takes part in the next gathering and returns all contributions, by rank. The rendezvous ends the group when the
  /// timeout of any worker that waits has passed; 0 = none: it waits for others as long as they live.
  std::vector<std::string> gather(const std::string& phase, std::string contribution,
                                  std::chrono::milliseconds timeout);
  /// Throws if the group has failed by now; does not wait.
  void check();
  /// Ends the group for all: this worker cannot go on, because of `text`. Does not throw.
  void fail(const std::string& text) noexcept;
  /// Says that this connection ends as it should. Does not throw.
  void leave() noexcept;

 private:
  enum class JoinResult { joined, try_again };

  JoinResult try_to_join(const Options& options, Clock::time_point deadline, std::string& problem);
  std::optional<Proof> prove(const Options& options, Clock::time_point deadline, std::string& problem);
  bool read_exactly(std::span<std::byte> to, Clock::time_point deadline, std::string& problem);
  bool run_until(Clock::time_point deadline);
  void send(const RendezvousMessage& message) { send(encode(message)); }
  void send(Bytes bytes);
  void flush(Clock::time_point deadline);
  std::optional<RendezvousMessage> receive(Clock::time_point deadline);
  RendezvousMessage await_answer(const std::string& phase, std::chrono::milliseconds timeout);
  void read_prefix();
  void read_body(std::size_t size);

  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::socket socket_{io_};
  boost::asio::ip::address local_address_, rank_0_address_;
  std::string group_;
  std::vector<std::string> names_;
  uint32_t round_ = 0;
  Bytes incoming_;
  std::deque<RendezvousMessage> inbox_;
  std::deque<Bytes> outgoing_;
  std::exception_ptr failure_;  // of the group, once this worker has heard of it
  std::string end_;             // why the connection is closed; empty: it is not
};

}  // namespace tendril::rpc::detail
