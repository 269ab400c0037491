#include "tendril/rpc/session/handshake_stream.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <cerrno>
#include <utility>

#include "tendril/rpc/session/proof.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

namespace {

std::exception_ptr as_exception(const boost::system::error_code& error) {
  return error ? std::make_exception_ptr(boost::system::system_error(error)) : nullptr;
}

boost::system::error_code system_code(int error) { return {error, boost::system::system_category()}; }

}  // namespace

void HandshakeStream::open(UniqueFd socket) {
  close();
  stream_.assign(socket.get());
  socket.release();
  stream_.native_non_blocking(true);
}

void HandshakeStream::close() {
  ++generation_;
  tls_.reset();
  boost::system::error_code ignored;
  if (stream_.is_open()) stream_.close(ignored);
}

void HandshakeStream::close_after_last_word() {
  if (!stream_.is_open()) return;
  ::shutdown(stream_.native_handle(), SHUT_WR);
  std::array<char, 4096> unread;
  for (int i = 0; i < 16 && ::recv(stream_.native_handle(), unread.data(), unread.size(), MSG_DONTWAIT) > 0; ++i) {
  }
  close();
}

StreamConnection HandshakeStream::release(bool tcp) {
  ++generation_;
  return {.socket = UniqueFd(stream_.release()), .tcp = tcp, .tls = std::move(tls_)};
}

void HandshakeStream::later(const Done& done, std::exception_ptr error) {
  asio::post(stream_.get_executor(), [this, generation = generation_, done, error = std::move(error)] {
    done(generation == generation_ ? error : as_exception(asio::error::operation_aborted));
  });
}

void HandshakeStream::wait(Descriptor::wait_type what, std::function<void(const Done&)> then, Done done) {
  stream_.async_wait(what, [this, generation = generation_, then = std::move(then),
                            done = std::move(done)](boost::system::error_code error) {
    if (generation != generation_) error = asio::error::operation_aborted;
    if (error) return done(as_exception(error));
    then(done);
  });
}

void HandshakeStream::wait_connected(Done done) {
  wait(
      Descriptor::wait_write,
      [this](const Done& then) {
        int error = 0;
        socklen_t length = sizeof error;
        ::getsockopt(stream_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &length);
        then(as_exception(system_code(error)));
      },
      std::move(done));
}

void HandshakeStream::secure(const TlsCredentials& credentials, TlsStream::Side side, Done done) {
  tls_ = std::make_unique<TlsStream>(credentials, stream_.native_handle(), side);
  go_on_securing(std::move(done));
}

void HandshakeStream::go_on_securing(Done done) {
  const auto again = [this](const Done& then) { go_on_securing(then); };
  try {
    switch (tls_->handshake()) {
      case TlsStream::Progress::done:
        return later(done);
      case TlsStream::Progress::wait_to_read:
        return wait(Descriptor::wait_read, again, std::move(done));
      case TlsStream::Progress::wait_to_write:
        return wait(Descriptor::wait_write, again, std::move(done));
      case TlsStream::Progress::closed:
        return later(done, as_exception(asio::error::eof));
    }
  } catch (...) {
    if (tls_->other_side_is_plain()) tls_.reset();
    later(done, std::current_exception());
  }
}

void HandshakeStream::read(std::span<std::byte> to, Done done) {
  if (tls_) return go_on_reading(to, std::move(done));
  asio::async_read(
      stream_, asio::buffer(to.data(), to.size()),
      [done = std::move(done)](const boost::system::error_code& error, std::size_t) { done(as_exception(error)); });
}

void HandshakeStream::go_on_reading(std::span<std::byte> to, Done done) {
  const iovec all{to.data(), to.size()};
  const ssize_t n = tls_->read(&all, 1);
  if (n == static_cast<ssize_t>(to.size())) return later(done);
  if (n == 0) return later(done, as_exception(asio::error::eof));
  if (n < 0 && errno == EACCES) return later(done, std::make_exception_ptr(ProofError(tls_->error())));
  if (n < 0 && errno != EAGAIN) return later(done, as_exception(system_code(errno)));
  const auto rest = n > 0 ? to.subspan(static_cast<std::size_t>(n)) : to;
  wait(
      Descriptor::wait_read, [this, rest](const Done& then) { go_on_reading(rest, then); }, std::move(done));
}

bool HandshakeStream::send(std::span<const std::byte> bytes) {
  const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const ssize_t sent = tls_ ? tls_->write(&all, 1)
                            : ::send(stream_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace tendril::rpc::detail
