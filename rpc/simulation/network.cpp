#include "tendril/rpc/simulation/network.h"

#include <algorithm>
#include <cerrno>

#include "tendril/rpc/error.h"
#include "tendril/rpc/simulation/acceptor.h"
#include "tendril/rpc/simulation/stream.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {
constexpr std::size_t kWhole = 4096;
constexpr uint32_t kFirstAddress = 0x0a000001;  // 10.0.0.1
constexpr uint16_t kFirstFreePort = 40'000;
}  // namespace

SimulatedNetwork::SimulatedNetwork(World& world, int hosts, const NetworkFaults& faults)
    : world_(world), hosts_(hosts), faults_(faults), random_(world.random().split()) {}

asio::ip::address SimulatedNetwork::address_of(int host) {
  return asio::ip::address_v4(kFirstAddress + static_cast<uint32_t>(host));
}

void SimulatedNetwork::cut(int from, int to) { cut_.insert({from, to}); }

void SimulatedNetwork::mend(int from, int to) {
  if (cut_.erase({from, to}) == 0) return;
  for (Connection* const connection : connections())
    for (int end = 0; end < 2; ++end)
      if (connection->hosts[end] == from && connection->hosts[1 - end] == to) send_again(*connection, end);
}

void SimulatedNetwork::calm() {
  faults_.long_delay = faults_.reset = faults_.corrupt = 0;
  while (!cut_.empty()) mend(cut_.begin()->first, cut_.begin()->second);
}

void SimulatedNetwork::host_up(int host) {
  if (down_.erase(host) == 0) return;
  for (Connection* const connection : connections())
    for (int end = 0; end < 2; ++end)
      if (connection->hosts[0] == host || connection->hosts[1] == host) send_again(*connection, end);
}

/// Retransmits the segments that a cut or a lost host has held back.
void SimulatedNetwork::send_again(Connection& connection, int end) {
  Flow& flow = connection.flows[static_cast<std::size_t>(end)];
  if (flow.on_the_way.empty()) return;
  const Clock::time_point again = world_.time() + std::chrono::microseconds(random_.between(100, 200'000));
  for (Segment& segment : flow.on_the_way) {
    segment.arrival = std::max(segment.arrival, again);
    arrive_at(segment.arrival, connection, end);
  }
  flow.last_arrival = std::max(flow.last_arrival, again);
}

std::vector<Connection*> SimulatedNetwork::connections() const {
  std::vector<Connection*> all;
  for (const auto& [number, weak] : connections_)
    if (const auto connection = weak.lock()) all.push_back(connection.get());
  return all;
}

std::shared_ptr<Connection> SimulatedNetwork::make(bool tcp, int from, int to) {
  auto connection = std::make_shared<Connection>();
  connection->number = ++made_;
  connection->buffer = faults_.buffer;
  if (random_.chance(faults_.small_buffer)) {
    connection->buffer = random_.between(1024, 16384);
    ++counters_["small buffer"];
  }
  connection->tcp = tcp;
  connection->hosts[0] = from;
  connection->hosts[1] = to;
  if (connections_.size() >= sweep_at_) {
    std::erase_if(connections_, [](const auto& one) { return one.second.expired(); });
    sweep_at_ = 64 + 2 * connections_.size();
  }
  connections_[connection->number] = connection;
  return connection;
}

Network::Connecting SimulatedNetwork::connect_unix(const std::string& path) {
  const World::InSimulator inside(world_);
  SimulatedWorker& worker = world_.worker();
  if (worker.dead) return {.stream = nullptr, .error = ENETDOWN};
  const auto found = unix_.find(path);
  if (found == unix_.end()) return {.stream = nullptr, .error = ENOENT};
  if (found->second->worker().rank != worker.rank) return {.stream = nullptr, .error = ENOENT};  // on another host
  auto connection = make(false, worker.rank, worker.rank);
  connection->made = true;
  auto stream = std::make_unique<SimulatedStream>(*this, worker, connection, 0);
  found->second->enqueue(std::move(connection));
  return {.stream = std::move(stream), .error = 0};
}

/// Returns -1 if no host has this address. `own` is the host that asks.
int SimulatedNetwork::host_of(const asio::ip::address& address, int own) const {
  if (address.is_loopback()) return own;
  if (!address.is_v4()) return -1;
  const uint32_t host = address.to_v4().to_uint() - kFirstAddress;
  return host < static_cast<uint32_t>(hosts_) ? static_cast<int>(host) : -1;
}

SimulatedAcceptor* SimulatedNetwork::listener(int host, const tcp::endpoint& to) const {
  const auto found = tcp_.find({host, to.port()});
  if (found == tcp_.end()) return nullptr;
  const asio::ip::address at = found->second->tcp_endpoint().address();
  return at.is_unspecified() || at == to.address() ? found->second : nullptr;
}

uint16_t SimulatedNetwork::free_port(int host) {
  do {
    next_port_ = next_port_ == 65'535 ? kFirstFreePort : static_cast<uint16_t>(next_port_ + 1);
  } while (tcp_.contains({host, next_port_}));
  return next_port_;
}

Network::Connecting SimulatedNetwork::connect_tcp(const tcp::endpoint& to) {
  const World::InSimulator inside(world_);
  SimulatedWorker& worker = world_.worker();
  if (worker.dead) return {.stream = nullptr, .error = ENETDOWN};
  const int host = host_of(to.address(), worker.rank);
  if (host < 0) return {.stream = nullptr, .error = ENETUNREACH};
  auto connection = make(true, worker.rank, host);
  connection->ends[0] =
      tcp::endpoint(to.address().is_loopback() ? to.address() : address_of(worker.rank), free_port(worker.rank));
  connection->ends[1] = to;
  auto stream = std::make_unique<SimulatedStream>(*this, worker, connection, 0);
  // Retries the connection request while either direction is cut, as TCP does.
  const auto attempt = std::make_shared<std::function<void()>>();
  *attempt = [this, weak = std::weak_ptr(connection), to, host, again = std::weak_ptr(attempt), tries = 0]() mutable {
    const auto made = weak.lock();
    if (!made || made->streams[0] == nullptr || made->errors[0] != 0) return;
    const int from = made->hosts[0];
    if (!passes(from, host) || !passes(host, from)) {
      if (++tries > 7) return fail(*made, 0, ETIMEDOUT);
      return world_.after(std::chrono::seconds(1 << (tries - 1)), [keep = again.lock()] { (*keep)(); });
    }
    SimulatedAcceptor* const there = listener(host, to);
    if (Recorder* const recorder = world_.recorder())
      recorder->connection(*made, 0, "connection", there != nullptr ? "connects to" : "is refused by");
    if (there == nullptr) return fail(*made, 0, ECONNREFUSED);
    made->made = true;
    there->enqueue(made);
    made->streams[0]->report(EPOLLOUT);
  };
  world_.after(std::chrono::microseconds(random_.between(40, 400)), [attempt] { (*attempt)(); });
  return {.stream = std::move(stream), .error = EINPROGRESS};
}

std::unique_ptr<Acceptor> SimulatedNetwork::listen_unix(Reactor& reactor) {
  const World::InSimulator inside(world_);
  SimulatedWorker& worker = world_.worker();
  const std::string path = "/simulated/" + std::to_string(++made_) + "/socket";
  auto acceptor = std::make_unique<SimulatedAcceptor>(*this, worker, reactor, path, tcp::endpoint());
  if (!worker.dead) unix_[path] = acceptor.get();
  return acceptor;
}

std::unique_ptr<Acceptor> SimulatedNetwork::listen_tcp(Reactor& reactor, const tcp::endpoint& at) {
  const World::InSimulator inside(world_);
  SimulatedWorker& worker = world_.worker();
  const uint16_t port = at.port() != 0 ? at.port() : free_port(worker.rank);
  if (tcp_.contains({worker.rank, port}))
    throw boost::system::system_error(EADDRINUSE, boost::system::system_category());
  if (!at.address().is_unspecified() && !at.address().is_loopback() && at.address() != address_of(worker.rank))
    throw boost::system::system_error(EADDRNOTAVAIL, boost::system::system_category());
  auto acceptor =
      std::make_unique<SimulatedAcceptor>(*this, worker, reactor, std::string(), tcp::endpoint(at.address(), port));
  if (!worker.dead) tcp_[{worker.rank, port}] = acceptor.get();
  return acceptor;
}

std::unique_ptr<Acceptor> SimulatedNetwork::listen_tcp(Reactor&, int) {
  throw boost::system::system_error(EBADF, boost::system::system_category());
}

std::vector<asio::ip::address> SimulatedNetwork::look_up(const std::string& host, boost::system::error_code& error) {
  const World::InSimulator inside(world_);
  for (int i = 0; i < hosts_; ++i)
    if (host == "host-" + std::to_string(i)) return {address_of(i)};
  error = asio::error::host_not_found;
  return {};
}

bool SimulatedNetwork::is_of_this_host(const asio::ip::address& address) {
  return address.is_loopback() || address == address_of(world_.worker().rank);
}

// ---- bytes

void Flow::consume(std::size_t size) {
  consumed += size;
  unread -= size;
  freed += size;
  untold += size;
  if (consumed <= received.size() / 2) return;  // erasing only then keeps the cost linear
  received.erase(0, consumed);
  consumed = 0;
}

Clock::time_point SimulatedNetwork::arrival(Flow& flow, bool local) {
  std::chrono::microseconds delay(random_.between(static_cast<uint64_t>(faults_.min_delay.count()),
                                                  static_cast<uint64_t>(faults_.max_delay.count())));
  if (local) delay /= 10;
  if (!local && random_.chance(faults_.long_delay)) {
    ++counters_["long delay"];
    delay += std::chrono::microseconds(random_.between(1000, 200'000));
  }
  flow.last_arrival = std::max(flow.last_arrival, world_.time() + delay);  // segments stay in order
  return flow.last_arrival;
}

ssize_t SimulatedNetwork::write(Connection& connection, int end, const iovec* from, int count) {
  const World::InSimulator inside(world_);
  Flow& flow = connection.flows[static_cast<std::size_t>(end)];
  std::size_t wanted = 0;
  for (int i = 0; i < count; ++i) wanted += from[i].iov_len;
  if (flow.used() >= connection.buffer && wanted > 0) {
    flow.was_full = true;
    errno = EAGAIN;
    return -1;
  }
  std::size_t room = std::min(wanted, connection.buffer - flow.used());
  // An empty buffer accepts a small message whole, as on Linux.
  if ((flow.unread > 0 || room > kWhole) && room > 1 && random_.chance(faults_.part)) {
    ++counters_["partial write"];
    room = random_.between(1, room);
  }
  std::string bytes;
  bytes.reserve(room);
  for (int i = 0; i < count && bytes.size() < room; ++i)
    bytes.append(static_cast<const char*>(from[i].iov_base), std::min(from[i].iov_len, room - bytes.size()));
  if (room < wanted) flow.was_full = true;
  const SimulatedStream* const stream = connection.streams[static_cast<std::size_t>(end)];
  if (stream != nullptr && stream->worker().dead) return static_cast<ssize_t>(room);  // discarded
  if (connection.tcp && random_.chance(faults_.reset)) {
    ++counters_["reset"];
    reset(connection);
    fail(connection, end, ECONNRESET);
    errno = ECONNRESET;
    return -1;
  }
  if (bytes.size() > 1 && random_.chance(faults_.part)) {
    const std::size_t first = random_.between(1, bytes.size() - 1);
    send(connection, end, {.bytes = bytes.substr(0, first)});
    bytes.erase(0, first);
  }
  send(connection, end, {.bytes = std::move(bytes)});
  if (room < wanted && flow.used() < connection.buffer) {  // a partial write with room left: still writable
    world_.after(std::chrono::microseconds(1),
                 [shared = connection.shared_from_this(), end] { report(*shared, end, EPOLLOUT); });
  }
  return static_cast<ssize_t>(room);
}

void SimulatedNetwork::send(Connection& connection, int end, Segment segment) {
  const World::InSimulator inside(world_);
  Flow& flow = connection.flows[static_cast<std::size_t>(end)];
  flow.unread += segment.bytes.size();
  ++segments_;
  Recorder* const recorder = world_.recorder();
  if (recorder != nullptr) recorder->sent(connection, end, segment);
  if (connection.tcp && !segment.bytes.empty() && random_.chance(faults_.corrupt)) {
    ++counters_["corrupt byte"];
    const char flipped = static_cast<char>(1 << random_.below(8));
    const std::size_t at = random_.below(segment.bytes.size());
    segment.bytes[at] ^= flipped;
    if (recorder != nullptr) recorder->corrupted(connection, end, segment.bytes.size() - at);
  }
  segment.arrival = arrival(flow, !connection.tcp);
  arrive_at(segment.arrival, connection, end);
  flow.on_the_way.push_back(std::move(segment));
}

void SimulatedNetwork::arrive_at(Clock::time_point when, Connection& connection, int end) {
  world_.at(when, [this, shared = connection.shared_from_this(), end] { arrive(*shared, end); });
}

void SimulatedNetwork::arrive(Connection& connection, int end) {
  auto& on_the_way = connection.flows[static_cast<std::size_t>(end)].on_the_way;
  if (!passes(connection.hosts[end], connection.hosts[1 - end])) return;  // send_again retransmits it
  while (!on_the_way.empty() && on_the_way.front().arrival <= world_.time()) {
    const Segment segment = std::move(on_the_way.front());
    on_the_way.pop_front();
    deliver(connection, end, segment);
  }
}

void SimulatedNetwork::deliver(Connection& connection, int end, const Segment& segment) {
  using Kind = Segment::Kind;
  const int to = 1 - end;
  if (segment.kind == Kind::reset) {
    if (Recorder* const recorder = world_.recorder()) recorder->received(connection, end, segment);
    world_.note(connection.hosts[to], "receives a reset over connection " + std::to_string(connection.number));
    return fail(connection, to, ECONNRESET);
  }
  // A host answers segments of a connection that it does not know, and bytes for a closed socket.
  if (connection.errors[static_cast<std::size_t>(to)] != 0 ||
      (connection.gone[static_cast<std::size_t>(to)] && segment.kind == Kind::bytes))
    return send(connection, to, {.kind = Kind::reset});
  if (segment.kind == Kind::window) {
    Flow& flow = connection.flows[static_cast<std::size_t>(to)];
    flow.freed -= segment.window;
    if (std::exchange(flow.was_full, false)) report(connection, to, EPOLLOUT);
  } else {
    receive(connection, end, segment);
  }
}

void SimulatedNetwork::receive(Connection& connection, int end, const Segment& segment) {
  const bool is_end = segment.kind == Segment::Kind::end;
  Flow& flow = connection.flows[static_cast<std::size_t>(end)];
  flow.received += segment.bytes;
  if (is_end) flow.end_received = true;
  if (Recorder* const recorder = world_.recorder()) recorder->received(connection, end, segment);
  world_.note(connection.hosts[1 - end], "receives " + std::to_string(segment.bytes.size()) +
                                             " bytes over connection " + std::to_string(connection.number) +
                                             ", digest " + std::to_string(fnv1a(segment.bytes)));
  report(connection, 1 - end, is_end ? EPOLLIN | EPOLLRDHUP : EPOLLIN);
}

void SimulatedNetwork::report(const Connection& connection, int end, uint32_t events) {
  if (SimulatedStream* const stream = connection.streams[static_cast<std::size_t>(end)]) stream->report(events);
}

/// Reports bytes read by `end` to the writer, if it waits for room or half of the buffer has become free.
void SimulatedNetwork::has_read(Connection& connection, int end) {
  Flow& in = connection.flows[static_cast<std::size_t>(1 - end)];
  if (in.untold < (in.was_full ? 1 : connection.buffer / 2)) return;
  send(connection, end, {.kind = Segment::Kind::window, .window = std::exchange(in.untold, 0)});
}

void SimulatedNetwork::fail(Connection& connection, int end, int error) {
  int& known = connection.errors[static_cast<std::size_t>(end)];
  if (known != 0) return;
  known = error;
  report(connection, end, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
}

void SimulatedNetwork::reset(Connection& connection) {
  if (Recorder* const recorder = world_.recorder())
    recorder->connection(connection, 0, "fault", "fault: reset of the connection with");
  for (int end = 0; end < 2; ++end) {
    Flow& flow = connection.flows[static_cast<std::size_t>(end)];
    const Clock::time_point when = world_.time() + std::chrono::microseconds(random_.between(1, 200));
    const auto later = std::find_if(flow.on_the_way.begin(), flow.on_the_way.end(),
                                    [&](const Segment& segment) { return segment.arrival > when; });
    flow.on_the_way.insert(later, {.kind = Segment::Kind::reset, .arrival = when});
    flow.last_arrival = std::max(flow.last_arrival, when);
    arrive_at(when, connection, end);
  }
}

/// Closes one end, as TCP does: bytes already sent still arrive; if received bytes are unread, the other end is reset.
void SimulatedNetwork::closed(Connection& connection, int end, bool with_reset) {
  const World::InSimulator inside(world_);
  Flow& out = connection.flows[static_cast<std::size_t>(end)];
  const Flow& in = connection.flows[static_cast<std::size_t>(1 - end)];
  connection.gone[static_cast<std::size_t>(end)] = true;
  if (!connection.made || connection.errors[static_cast<std::size_t>(end)] != 0) return;
  if (with_reset || !in.readable().empty()) {
    send(connection, end, {.kind = Segment::Kind::reset});
  } else if (!std::exchange(out.end_sent, true)) {
    send(connection, end, {.kind = Segment::Kind::end});
  }
}

void SimulatedNetwork::worker_gone(SimulatedWorker& worker, bool silently) {
  const int host = worker.rank;
  if (silently) down_.insert(host);
  std::erase_if(tcp_, [&](const auto& one) { return &one.second->worker() == &worker; });
  std::erase_if(unix_, [&](const auto& one) { return &one.second->worker() == &worker; });
  for (Connection* const connection : connections()) {
    for (int end = 0; end < 2; ++end) {
      const SimulatedStream* const stream = connection->streams[static_cast<std::size_t>(end)];
      const bool its =
          stream != nullptr ? &stream->worker() == &worker : connection->made && connection->hosts[end] == host;
      if (!its) continue;
      if (silently) {
        connection->flows[static_cast<std::size_t>(end)].on_the_way.clear();  // nothing retransmits it
      } else if (!connection->gone[static_cast<std::size_t>(end)]) {
        closed(*connection, end, stream == nullptr);  // null: it waits to be accepted
      }
      fail(*connection, end, ECONNRESET);
    }
  }
}

}  // namespace tendril::rpc::detail
