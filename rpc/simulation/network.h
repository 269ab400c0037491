#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tendril/rpc/simulation/world.h"
#include "tendril/rpc/threads/poller.h"
#include "tendril/rpc/transport/network.h"

namespace tendril::rpc::detail {

class SimulatedStream;
class SimulatedAcceptor;

/// Delays and faults of connections. Faults are probabilities.
struct NetworkFaults {
  std::chrono::microseconds min_delay{20}, max_delay{200};
  double long_delay = 0;    ///< per segment: it is delayed by up to 200 ms more
  double reset = 0;         ///< per write: the connection is reset
  double small_buffer = 0;  ///< per connection: its buffers are small
  double corrupt = 0;       ///< per segment: one byte is changed
  double part = 0.1;        ///< per write: it is partial; also, that its bytes are split into two segments
  std::size_t buffer = std::size_t{256} << 10;  ///< capacity of each direction, in bytes
};

/// Something that one end of a connection sends to the other.
struct Segment {
  enum class Kind { bytes, end, reset, window };
  Kind kind = Kind::bytes;
  std::string bytes = {};
  std::size_t window = 0;  ///< number of bytes that the sender of this segment has read
  Clock::time_point arrival{};
};

/// One direction of a connection.
struct Flow {
  std::deque<Segment> on_the_way;  ///< by time of arrival
  std::string received;            ///< the first `consumed` bytes have been read
  std::size_t consumed = 0;
  std::size_t unread = 0;  ///< bytes that are on the way, or received and not read
  std::size_t freed = 0;   ///< bytes read without the writer's knowledge
  std::size_t untold = 0;  ///< of those, bytes that no window update on the way reports
  bool was_full = false;   ///< the writer waits for room
  bool end_sent = false, end_received = false;
  Clock::time_point last_arrival{};

  /// The part of the buffer that is in use, as far as the writer knows.
  std::size_t used() const noexcept { return unread + freed; }
  std::string_view readable() const noexcept { return std::string_view(received).substr(consumed); }
  void consume(std::size_t size);
};

/// A connection between two workers.
struct Connection : std::enable_shared_from_this<Connection> {
  uint64_t number = 0;
  std::size_t buffer = 0;  ///< capacity of each direction in bytes
  bool tcp = true;
  int hosts[2] = {0, 0};
  std::array<SimulatedStream*, 2> streams{};  ///< null: closed, or not accepted yet
  std::array<bool, 2> gone{};                 ///< whether each end is closed
  std::array<Flow, 2> flows;                  ///< by the end that sends
  std::array<int, 2> errors{};                ///< errno of each end; 0: none
  bool made = false;
  boost::asio::ip::tcp::endpoint ends[2];
};

/// The hosts, one per rank, and the connections between them.
class SimulatedNetwork final : public Network {
 public:
  SimulatedNetwork(World& world, int hosts, const NetworkFaults& faults);

  static boost::asio::ip::address address_of(int host);

  // ---- faults
  void cut(int from, int to);  ///< stops delivery in that direction
  void mend(int from, int to);
  void calm();  ///< heals all cuts, and stops long delays, resets and corruption
  bool is_cut(int from, int to) const { return cut_.contains({from, to}); }
  /// Closes the sockets of a process that has ended. `silently`: its host is lost too, so peers are not notified.
  void worker_gone(SimulatedWorker& worker, bool silently);
  void host_up(int host);              ///< brings a lost host back
  void reset(Connection& connection);  ///< at both ends; bytes on the way may be lost
  std::vector<Connection*> connections() const;
  std::map<std::string, uint64_t>& counters() noexcept { return counters_; }
  uint64_t segments() const noexcept { return segments_; }

  // ---- Network
  Connecting connect_unix(const std::string& path) override;
  Connecting connect_tcp(const boost::asio::ip::tcp::endpoint& to) override;
  std::unique_ptr<Acceptor> listen_unix(Reactor& reactor) override;
  std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, const boost::asio::ip::tcp::endpoint& at) override;
  std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, int socket) override;
  bool is_trusted() const noexcept override { return true; }
  std::vector<boost::asio::ip::address> look_up(const std::string& host, boost::system::error_code& error) override;
  bool is_of_this_host(const boost::asio::ip::address& address) override;

 private:
  friend class SimulatedStream;
  friend class SimulatedAcceptor;

  ssize_t write(Connection& connection, int end, const iovec* from, int count);
  // In `send`, the `arrive` functions, `deliver` and `receive`, `end` is the end that sends.
  void send(Connection& connection, int end, Segment segment);
  void arrive(Connection& connection, int end);
  void deliver(Connection& connection, int end, const Segment& segment);
  void receive(Connection& connection, int end, const Segment& segment);
  static void report(const Connection& connection, int end, uint32_t events);
  void arrive_at(Clock::time_point when, Connection& connection, int end);
  void has_read(Connection& connection, int end);
  Clock::time_point arrival(Flow& flow, bool local);
  std::shared_ptr<Connection> make(bool tcp, int from, int to);
  int host_of(const boost::asio::ip::address& address, int own) const;
  SimulatedAcceptor* listener(int host, const boost::asio::ip::tcp::endpoint& to) const;
  uint16_t free_port(int host);
  void closed(Connection& connection, int end, bool with_reset);
  void fail(Connection& connection, int end, int error);
  bool passes(int from, int to) const { return !is_cut(from, to) && !down_.contains(from) && !down_.contains(to); }
  void send_again(Connection& connection, int end);

  World& world_;
  const int hosts_;
  NetworkFaults faults_;
  SimulationRandom random_;
  std::set<std::pair<int, int>> cut_;
  std::set<int> down_;
  std::map<std::pair<int, uint16_t>, SimulatedAcceptor*> tcp_;
  std::map<std::string, SimulatedAcceptor*> unix_;
  std::map<uint64_t, std::weak_ptr<Connection>> connections_;
  std::map<std::string, uint64_t> counters_;
  std::size_t sweep_at_ = 64;  ///< the size of `connections_` at which expired ones are erased
  uint64_t made_ = 0, segments_ = 0;
  uint16_t next_port_ = 40'000;
};

}  // namespace tendril::rpc::detail
