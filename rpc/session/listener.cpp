#include "tendril/rpc/session/listener.h"

#include <cerrno>
#include <cstring>
#include <exception>

#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

std::shared_ptr<Listener> Listener::open(std::shared_ptr<Agent::Impl> agent, const Agent::ListenOptions& options) {
  auto listener = std::make_shared<Listener>(std::move(agent));
  if (options.unix_socket) listener->listen_unix(options.tcp);
  if (options.tcp) listener->listen_tcp(options);
  return listener;
}

void Listener::start() {
  // The acceptors are the leader's from here on.
  loop_->post_io([self = shared_from_this()] {
    for (Door* door : {&self->unix_, &self->tcp_})
      if (door->acceptor && self->is_open()) self->accept(*door);
  });
}

Listener::Listener(std::shared_ptr<Agent::Impl> agent)
    : agent_(agent),
      loop_(agent->loop),
      unix_{nullptr, Timer(loop_->reactor()), std::make_shared<Handshake::Others>(*agent)},
      tcp_{nullptr, Timer(loop_->reactor()), std::make_shared<Handshake::Others>(*agent)} {}

/// `optional`: where no folder or socket can be had (a full or read-only file system), TCP does alone.
void Listener::listen_unix(bool optional) try {
  unix_.acceptor = network().listen_unix(loop_->reactor());
  endpoint_.unix_path = unix_.acceptor->unix_path();
} catch (const UsageError& e) {
  if (!optional) throw;
  const std::string& name = unix_.handshakes->worker;
  log(LogLevel::warn, name, "rpc: worker '" + name + "' accepts connections over TCP only: " + e.what());
}

void Listener::listen_tcp(const Agent::ListenOptions& options) {
  const auto agent = agent_.lock();
  if (options.tcp_socket >= 0) {
    if (!agent->options.tls) key_of(*agent);
    try {
      tcp_.acceptor = network().listen_tcp(loop_->reactor(), options.tcp_socket);
    } catch (const std::exception& e) {
      throw UsageError(std::string("Agent::listen: no listening socket was inherited: ") + e.what());
    }
    endpoint_.tcp_host = tcp_.acceptor->tcp_endpoint().address().to_string();
    endpoint_.tcp_port = tcp_.acceptor->tcp_endpoint().port();
    return;
  }
  const boost::asio::ip::tcp::endpoint at(address_of(options.tcp_host, "Agent::listen"), options.tcp_port);
  check_reachable(*agent, "Agent::listen", options.tcp_host, at.address().is_loopback());
  TENDRIL_CHECK_AS(UsageError, !at.address().is_unspecified() || !options.advertised_host.empty(), "Agent::listen: '",
                   options.tcp_host, "' is not an address that others can dial: set advertised_host");
  if (!agent->options.tls) key_of(*agent);  // its absence is better known now
  try {
    tcp_.acceptor = network().listen_tcp(loop_->reactor(), at);
  } catch (const boost::system::system_error& e) {
    throw UsageError("Agent::listen: cannot listen on " + options.tcp_host + " port " +
                     std::to_string(options.tcp_port) + ": " + e.code().message());
  }
  endpoint_.tcp_host = options.advertised_host.empty() ? at.address().to_string() : options.advertised_host;
  endpoint_.tcp_port = tcp_.acceptor->tcp_endpoint().port();
}

void Listener::accept(Door& door) {
  door.acceptor->wait([self = shared_from_this(), &door](int error) {
    Acceptor::Accepted connection;
    try {
      if (error == 0) connection = door.acceptor->accept();
      if (error == 0) error = connection.error;
    } catch (const std::exception&) {
      error = ENOMEM;
    }
    if (error != 0) return self->retry_later(door, error);
    self->accept(door);  // first: the rest may throw
    if (connection.stream) self->accepted(door, std::move(connection));
  });
}

/// Out of file descriptors, say: trying again at once would only burn the processor.
void Listener::retry_later(Door& door, int error) {
  door.retry.call_after(std::chrono::milliseconds(100), [self = shared_from_this(), &door] { self->accept(door); });
  Handshake::Others& strangers = *tcp_.handshakes;
  strangers.note(std::string("an unknown peer: ") + std::strerror(error));
  strangers.half_open.close_oldest(Clock::now());
}

void Listener::accepted(Door& door, Acceptor::Accepted connection) {
  const auto agent = agent_.lock();
  if (!agent || !door.handshakes->half_open.make_room(Clock::now())) return;
  const bool tcp = &door == &tcp_;
  if (!tcp && !connection.stream->peer_is_same_user()) return;
  std::make_shared<Handshake>(agent, std::move(connection.stream), tcp, std::move(connection.from), door.handshakes)
      ->start();
}

bool Listener::somebody_connects() {
  for (Door* door : {&unix_, &tcp_}) {
    if (door->handshakes->half_open.size() > 0) return true;
    if (door->acceptor && is_open() && door->acceptor->somebody_waits()) return true;
  }
  return false;
}

void Listener::close() {
  if (closed_.exchange(true)) return;
  if (unix_.acceptor) unix_.acceptor->hide();
  loop_->post_io([self = shared_from_this()] {
    for (Door* door : {&self->unix_, &self->tcp_}) {
      if (door->acceptor) door->acceptor->close();
      door->retry.cancel();
      door->handshakes->half_open.close_all();  // they keep the agent alive, and nothing would continue them
    }
  });
}

}  // namespace tendril::rpc::detail
