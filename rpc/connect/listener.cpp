#include "tendril/rpc/connect/listener.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace tendril::rpc::detail {

using boost::asio::ip::tcp;

Listener::Listener(const Ref<Loop>& loop, std::weak_ptr<Admission> admission, const Options& options)
    : loop_(loop),
      admission_(std::move(admission)),
      unix_{nullptr, Timer(loop_->reactor()),
            std::make_shared<Handshake::Pending>(options.worker, options.max_half_open)},
      tcp_{nullptr, Timer(loop_->reactor()),
           std::make_shared<Handshake::Pending>(options.worker, options.max_half_open)} {}

void Listener::listen_unix() { unix_.acceptor = network().listen_unix(loop_->reactor()); }
void Listener::listen_tcp(const tcp::endpoint& at) { tcp_.acceptor = network().listen_tcp(loop_->reactor(), at); }
void Listener::listen_tcp(int socket) { tcp_.acceptor = network().listen_tcp(loop_->reactor(), socket); }

std::string Listener::unix_path() const { return unix_.acceptor ? unix_.acceptor->unix_path() : std::string(); }
std::optional<tcp::endpoint> Listener::tcp_endpoint() const {
  if (!tcp_.acceptor) return std::nullopt;
  return tcp_.acceptor->tcp_endpoint();
}

void Listener::start() {
  // The acceptors are used on the reactor's thread from here on.
  loop_->post_io([self = shared_from_this()] {
    for (ListeningSocket* socket : {&self->unix_, &self->tcp_}) {
      if (socket->acceptor && self->is_open()) self->accept(*socket);
    }
  });
}

void Listener::accept(ListeningSocket& socket) try {
  socket.acceptor->wait([self = shared_from_this(), &socket](int error) {
    Acceptor::Accepted connection;
    try {
      if (error == 0) connection = socket.acceptor->accept();
      if (error == 0) error = connection.error;
    } catch (const std::exception&) {
      error = ENOMEM;
    }
    if (error != 0) return self->retry_later(socket, error);
    self->accept(socket);  // before starting the handshake, which may throw
    if (connection.stream) self->accepted(socket, std::move(connection));
  });
} catch (const std::exception&) {  // out of memory: without another attempt, the socket would accept nothing more
  retry_later(socket, ENOMEM);
}

/// Waits before the next attempt: after errors such as EMFILE, an immediate one would only waste processor time.
void Listener::retry_later(ListeningSocket& socket, int error) {
  socket.retry.call_after(std::chrono::milliseconds(100),
                          [self = shared_from_this(), &socket] { self->accept(socket); });
  Handshake::Pending& strangers = *tcp_.handshakes;
  strangers.note(std::string("an unknown peer: ") + std::strerror(error));
  strangers.half_open.close_oldest(Clock::now());
}

void Listener::accepted(ListeningSocket& socket, Acceptor::Accepted connection) {
  const auto admission = admission_.lock();
  if (!admission || !socket.handshakes->half_open.make_room(Clock::now())) return;
  const bool tcp = &socket == &tcp_;
  if (!tcp && !connection.stream->peer_is_same_user()) return;
  std::make_shared<Handshake>(loop_->reactor(), admission, std::move(connection.stream), tcp,
                              std::move(connection.from), socket.handshakes)
      ->start();
}

bool Listener::has_connecting_peers() {
  for (ListeningSocket* socket : {&unix_, &tcp_}) {
    if (socket->handshakes->half_open.size() > 0) return true;
    if (socket->acceptor && is_open() && socket->acceptor->has_pending()) return true;
  }
  return false;
}

void Listener::close() {
  if (closed_.exchange(true)) return;
  if (unix_.acceptor) unix_.acceptor->hide();
  loop_->post_io([self = shared_from_this()] {
    for (ListeningSocket* socket : {&self->unix_, &self->tcp_}) {
      if (socket->acceptor) socket->acceptor->close();
      socket->retry.cancel();
      socket->handshakes->half_open.close_all();  // they keep the agent alive and could never finish
    }
  });
}

}  // namespace tendril::rpc::detail
