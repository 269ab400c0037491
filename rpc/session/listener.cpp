#include "tendril/rpc/session/listener.h"

#include <fcntl.h>
#include <poll.h>

#include <array>
#include <cerrno>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;

namespace {

boost::system::error_code error_of_errno() { return {errno, boost::system::system_category()}; }

template <class Acceptor>
void open_with(UniqueFd socket, Acceptor& acceptor, const typename Acceptor::protocol_type& protocol,
               boost::system::error_code& error) {
  if (!socket) {
    error = error_of_errno();
  } else if (!acceptor.assign(protocol, socket.get(), error)) {
    socket.release();
  }
}

/// Takes a connection that should wait there. None and no error: it has gone away.
UniqueFd take_connection(int listening, boost::system::error_code& error, sockaddr* from = nullptr,
                         socklen_t* size = nullptr) {
  UniqueFd socket;
  if (error) return socket;
  socket = accept_connection(listening, from, size);
  if (!socket && errno != EAGAIN && errno != ECONNABORTED) error = error_of_errno();
  return socket;
}

}  // namespace

std::shared_ptr<Listener> Listener::open(std::shared_ptr<Agent::Impl> agent, const Agent::ListenOptions& options) {
  auto listener = std::make_shared<Listener>(std::move(agent));
  if (options.unix_socket) listener->listen_unix(options.tcp);
  if (options.tcp) listener->listen_tcp(options);
  return listener;
}

void Listener::start() {
  // The acceptors are the leader's from here on.
  loop_->post_io([self = shared_from_this()] {
    if (self->unix_.is_open()) self->accept_unix();
    if (self->tcp_.is_open()) self->accept_tcp();
  });
}

Listener::Listener(std::shared_ptr<Agent::Impl> agent)
    : agent_(agent),
      loop_(agent->loop),
      unix_(loop_->io()),
      tcp_(loop_->io()),
      retry_unix_(loop_->io()),
      retry_tcp_(loop_->io()),
      unix_handshakes_(std::make_shared<Handshake::Others>(*agent)),
      tcp_handshakes_(std::make_shared<Handshake::Others>(*agent)) {}

/// `optional`: where no folder or socket can be had (a full or read-only file system), TCP does alone.
void Listener::listen_unix(bool optional) try {
  static const bool swept = [] { return sweep_dead_folders(PrivateFolder::default_base()), true; }();
  (void)swept;
  folder_.emplace();
  const std::string path = folder_->socket_path();
  const asio::local::stream_protocol::endpoint endpoint(path);
  boost::system::error_code error;
  open_with(new_socket(AF_UNIX), unix_, endpoint.protocol(), error);
  if (!error) unix_.bind(endpoint, error);
  if (!error) unix_.listen(asio::socket_base::max_listen_connections, error);
  TENDRIL_CHECK_AS(UsageError, !error, "Agent::listen: cannot listen on ", path, ": ", error.message());
  endpoint_.unix_path = path;
} catch (const UsageError& e) {
  boost::system::error_code ignored;
  unix_.close(ignored);
  folder_.reset();
  if (!optional) throw;
  const std::string& name = unix_handshakes_->worker;
  log(LogLevel::warn, name, "rpc: worker '" + name + "' accepts connections over TCP only: " + e.what());
}

void Listener::listen_tcp(const Agent::ListenOptions& options) {
  const auto agent = agent_.lock();
  if (options.tcp_socket >= 0) {
    const int copy = ::fcntl(options.tcp_socket, F_DUPFD_CLOEXEC, 0);
    TENDRIL_CHECK_AS(UsageError, copy >= 0, "Agent::listen: no socket that listens was inherited");
    if (!agent->options.tls) key_of(*agent);
    make_non_blocking(copy);
    tcp_.assign(asio::ip::tcp::v4(), copy);
    endpoint_.tcp_host = tcp_.local_endpoint().address().to_string();
    endpoint_.tcp_port = tcp_.local_endpoint().port();
    return;
  }
  const asio::ip::tcp::endpoint endpoint(address_of(options.tcp_host, "Agent::listen"), options.tcp_port);
  check_reachable(*agent, "Agent::listen", options.tcp_host, endpoint.address().is_loopback());
  TENDRIL_CHECK_AS(UsageError, !endpoint.address().is_unspecified() || !options.advertised_host.empty(),
                   "Agent::listen: '", options.tcp_host, "' is no address that others can dial: state advertised_host");
  if (!agent->options.tls) key_of(*agent);  // its absence is better known now
  boost::system::error_code error;
  open_with(new_socket(endpoint.protocol().family()), tcp_, endpoint.protocol(), error);
  if (!error) tcp_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) tcp_.bind(endpoint, error);
  if (!error) tcp_.listen(asio::socket_base::max_listen_connections, error);
  TENDRIL_CHECK_AS(UsageError, !error, "Agent::listen: cannot listen on ", options.tcp_host, " port ", options.tcp_port,
                   ": ", error.message());
  endpoint_.tcp_host = options.advertised_host.empty() ? endpoint.address().to_string() : options.advertised_host;
  endpoint_.tcp_port = tcp_.local_endpoint().port();
}

void Listener::accept_unix() {
  unix_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](boost::system::error_code error) {
    if (error == asio::error::operation_aborted || !self->unix_.is_open()) return;
    UniqueFd socket = take_connection(self->unix_.native_handle(), error);
    if (error) return self->retry_later(self->retry_unix_, &Listener::accept_unix, error.message());
    self->accept_unix();  // first: the rest may throw
    if (socket) self->accepted(std::move(socket), false, "a process of this user");
  });
}

void Listener::accept_tcp() {
  tcp_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](boost::system::error_code error) {
    if (error == asio::error::operation_aborted || !self->tcp_.is_open()) return;
    asio::ip::tcp::endpoint from;
    auto size = static_cast<socklen_t>(from.capacity());
    UniqueFd socket = take_connection(self->tcp_.native_handle(), error, from.data(), &size);
    if (error) return self->retry_later(self->retry_tcp_, &Listener::accept_tcp, error.message());
    self->accept_tcp();
    if (!socket) return;
    from.resize(size);
    self->accepted(std::move(socket), true, from.address().to_string());
  });
}

/// Out of file descriptors, say: trying again at once would only burn the processor.
void Listener::retry_later(asio::steady_timer& timer, void (Listener::*accept)(), const std::string& why) {
  Handshake::Others& strangers = *tcp_handshakes_;
  strangers.note("whoever connects now: " + why);
  strangers.half_open.close_oldest(Clock::now());
  timer.expires_after(std::chrono::milliseconds(100));
  timer.async_wait([self = shared_from_this(), accept](const boost::system::error_code& error) {
    if (!error) ((*self).*accept)();
  });
}

void Listener::accepted(UniqueFd socket, bool tcp, const std::string& from) {
  const auto agent = agent_.lock();
  const auto& handshakes = tcp ? tcp_handshakes_ : unix_handshakes_;
  if (!agent || !handshakes->half_open.make_room(Clock::now())) return;
  if (!tcp && !peer_is_same_user(socket.get())) return;
  tune_socket(socket.get(), tcp);
  std::make_shared<Handshake>(agent, std::move(socket), tcp, from, handshakes)->start();
}

bool Listener::somebody_connects() {
  if (unix_handshakes_->half_open.size() + tcp_handshakes_->half_open.size() > 0) return true;
  std::array<pollfd, 2> waiting{};
  nfds_t count = 0;
  if (unix_.is_open()) waiting[count++] = {unix_.native_handle(), POLLIN, 0};
  if (tcp_.is_open()) waiting[count++] = {tcp_.native_handle(), POLLIN, 0};
  return ::poll(waiting.data(), count, 0) > 0;
}

void Listener::close() {
  if (closed_.exchange(true)) return;
  folder_.reset();  // nobody dials any more
  loop_->post_io([self = shared_from_this()] {
    boost::system::error_code ignored;
    self->unix_.close(ignored);
    self->tcp_.close(ignored);
    self->retry_unix_.cancel();
    self->retry_tcp_.cancel();
    self->unix_handshakes_->half_open.close_all();  // they keep the agent, and nobody would look at them again
    self->tcp_handshakes_->half_open.close_all();
  });
}

}  // namespace tendril::rpc::detail
