#include "tendril/rpc/connect/dial.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/tls_context.h"

namespace tendril::rpc::detail {

Dial::Dial(Reactor& reactor, Addresses addresses, Owner owner)
    : addresses_(std::move(addresses)), owner_(std::move(owner)), stream_(reactor) {}

void Dial::start() { try_next_address(); }

void Dial::cancel() {
  owner_.done = nullptr;
  stream_.close();
}

/// `done` may drop the last other reference to this object.
void Dial::end(Outcome&& outcome) {
  const auto self = shared_from_this();
  if (const Done done = std::exchange(owner_.done, nullptr)) done(std::move(outcome));
  stream_.close();
}

void Dial::try_next_address() try {
  const int address = next_address_++;
  if (address == 0 && !addresses_.unix_path.empty()) {
    Network::Connecting begun = network().connect_unix(addresses_.unix_path);
    if (begun.error == 0 && !begun.stream->peer_is_same_user()) begun.error = EPERM;
    return this->begun(std::move(begun.stream), begun.error);
  }
  if (address <= 1 && addresses_.tcp) {
    next_address_ = 2;
    tcp_ = true;
    Network::Connecting begun = network().connect_tcp(*addresses_.tcp);
    return this->begun(std::move(begun.stream), begun.stream ? EINPROGRESS : begun.error);
  }
  std::string why = unreached_;
  if (!addresses_.unusable.empty()) {
    nobody_listens_ = false;
    why += (why.empty() ? "" : ", ") + addresses_.unusable;
  }
  end(Unreached{.why = std::move(why), .no_listener = nobody_listens_});
} catch (...) {
  end(Failed{.error = std::current_exception(), .authenticated = authenticated_});
}

/// `error`: 0 if the connection has been made, EINPROGRESS if it is being made.
void Dial::begun(std::unique_ptr<Stream> stream, int error) {
  if (error != 0 && error != EINPROGRESS) return not_reached(error);
  stream_.open(std::move(stream));
  if (error == 0) return connected();
  stream_.wait_connected([self = shared_from_this()](const std::exception_ptr& failure) {
    if (!self->owner_.done) return;
    try {
      if (failure) std::rethrow_exception(failure);
      self->connected();
    } catch (const ConnectionFailed& e) {
      self->not_reached(e.code().value());
    } catch (...) {
      self->end(Failed{.error = std::current_exception(), .authenticated = self->authenticated_});
    }
  });
}

void Dial::not_reached(int error) {
  stream_.close();
  // A full listen queue and missing resources of this process are temporary.
  if (error == EAGAIN) return end(Interrupted{"the listener's queue is full"});
  if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
    return end(Interrupted{std::strerror(error)});
  unreached_ += (unreached_.empty() ? "" : ", ") + std::string(tcp_ ? "tcp: " : "unix: ") +
                (error == EPERM && !tcp_ ? "the socket belongs to another user" : std::strerror(error));
  nobody_listens_ = nobody_listens_ && (error == ECONNREFUSED || error == ENOENT);
  try_next_address();
}

void Dial::connected() {
  // If no process listens on a local port, TCP may connect a socket to itself, which would block the port for
  // listeners.
  if (const auto ends = stream_.stream().ends(); ends && ends->same) {
    stream_.stream().reset_at_end();
    return not_reached(ECONNREFUSED);
  }
  if (!owner_.on_connected()) return end(Interrupted{"the peer will connect"});
  connecting_ = false;
  phase_ = "waiting for its hello";
  if (!tcp_) return secured();
  if (auto context = owner_.security())
    return stream_.secure(std::move(context), TlsStream::Side::dialler, next(&Dial::secured));
  TENDRIL_CHECK_AS(UsageError, network().is_trusted(), "a TCP connection needs a key, this worker has none");
  secured();
}

void Dial::secured() {
  authenticated_ = true;
  introduce();
}

void Dial::introduce() {
  // If sending fails, no answer follows, but a refusal with the reason may already have arrived.
  (void)stream_.send(encode(owner_.introduce()));
  answer_.assign(kHelloPrefixBytes, std::byte{0});
  read(0);
}

/// Reads no byte beyond the hello: the bytes that follow it belong to the link.
void Dial::read(std::size_t have) { stream_.read(std::span(answer_).subspan(have), next(&Dial::advance)); }

void Dial::advance() {
  const std::size_t have = answer_.size(), size = hello_size(answer_).value_or(kHelloPrefixBytes);
  if (size > have) {
    answer_.resize(size);
    return read(have);
  }
  Hello hello = decode_hello(answer_);
  if (!stream_.peer_may_be(hello.worker.name)) {
    authenticated_ = false;
    throw AuthenticationError("the other side's certificate does not contain its name, '" + hello.worker.name + "'");
  }
  end(Answered{.hello = std::move(hello), .stream = stream_});
}

/// Calls `step` unless the operation fails or this attempt is over.
HandshakeStream::Done Dial::next(void (Dial::*step)()) {
  return [self = shared_from_this(), step](const std::exception_ptr& error) {
    if (!self->owner_.done) return;
    try {
      if (error) std::rethrow_exception(error);
      ((*self).*step)();
    } catch (const ConnectionClosed&) {
      self->end(Interrupted{"it closed the connection without sending a hello"});
    } catch (const ConnectionFailed& e) {
      self->end(Interrupted{e.code().message()});
    } catch (...) {
      self->end(Failed{.error = std::current_exception(), .authenticated = self->authenticated_});
    }
  };
}

}  // namespace tendril::rpc::detail
