#include "tendril/rpc/observe/metrics_server.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <list>
#include <string_view>
#include <utility>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/observe/observer.h"
#include "tendril/rpc/status.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMostRequestBytes = 4096;
constexpr std::size_t kMostConnections = 16;
constexpr std::chrono::seconds kConnectionTime{5};
constexpr std::chrono::milliseconds kAcceptPause{100};

std::string http_response(const char* code, const char* type, std::string_view body, bool with_body = true) {
  std::string text = std::string("HTTP/1.1 ") + code + "\r\nContent-Type: " + type +
                     "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n";
  if (with_body) text += body;
  return text;
}

/// Returns the response to a request. Only the request line matters.
std::string http_answer(const Agent& agent, std::string_view request) {
  constexpr const char* kPlain = "text/plain; charset=utf-8";
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || last == first || !line.substr(last + 1).starts_with("HTTP/1."))
    return http_response("400 Bad Request", kPlain, "not an HTTP/1 request\n");
  const std::string_view method = line.substr(0, first);
  std::string_view path = line.substr(first + 1, last - first - 1);
  path = path.substr(0, path.find('?'));
  const bool head = method == "HEAD";
  if (method != "GET" && !head) return http_response("405 Method Not Allowed", kPlain, "only GET and HEAD\n");
  if (path == "/metrics")
    return http_response("200 OK", "text/plain; version=0.0.4; charset=utf-8", prometheus_text(agent), !head);
  if (path == "/status") return http_response("200 OK", kPlain, status(agent), !head);
  return http_response("404 Not Found", kPlain, "only /metrics and /status exist\n", !head);
}

}  // namespace

/// One client. Reads a request, answers it, and keeps reading until the client closes, so that a reset does not discard
/// the answer. Runs on the observer's thread.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(tcp::socket socket, std::shared_ptr<Agent> agent)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), agent_(std::move(agent)) {}

  void start() {
    timer_.expires_after(kConnectionTime);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->close();
    });
    read();
  }
  void close() {
    error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
  }
  bool closed() const { return !socket_.is_open(); }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(buffer_.data() + used_, buffer_.size() - used_),
                            [self = shared_from_this()](const error_code& error, std::size_t n) {
                              if (error) return self->close();
                              self->used_ += n;
                              self->look();
                            });
  }
  void look() {
    const std::string_view request(buffer_.data(), used_);
    if (request.find("\r\n\r\n") != request.npos) return answer(http_answer(*agent_, request));
    if (used_ < buffer_.size()) return read();
    answer(http_response("431 Request Header Fields Too Large", "text/plain", "at most 4096 bytes\n"));
  }
  void answer(std::string text) {
    answer_ = std::move(text);
    asio::async_write(socket_, asio::buffer(answer_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        if (error) return self->close();
                        error_code ignored;
                        self->socket_.shutdown(tcp::socket::shutdown_send, ignored);
                        self->drain();
                      });
  }
  void drain() {
    socket_.async_read_some(asio::buffer(buffer_), [self = shared_from_this()](const error_code& error, std::size_t) {
      if (error) return self->close();
      self->drain();
    });
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  const std::shared_ptr<Agent> agent_;
  std::array<char, kMostRequestBytes> buffer_;
  std::size_t used_ = 0;
  std::string answer_;
};

int metrics_port(int option, WorkerId rank, const std::function<const char*(const char*)>& environment) {
  TENDRIL_CHECK_AS(UsageError, option >= -1 && option <= 65535, "metrics_port must be -1 to 65535, got ", option);
  if (option >= 0) return option;
  const char* const text = environment("TENDRIL_METRICS_PORT");
  if (text == nullptr || *text == '\0') return -1;
  int base = 0;
  const char* const end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, base);
  TENDRIL_CHECK_AS(UsageError, result.ec == std::errc() && result.ptr == end && base >= 1 && base + rank <= 65535,
                   "the environment variable TENDRIL_METRICS_PORT must be a port, 1 to 65535 with the rank (", rank,
                   ") added, got '", text, "'");
  return base + rank;
}

class MetricsServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, std::shared_ptr<Agent> agent) : acceptor_(io), pause_(io), agent_(std::move(agent)) {}

  uint16_t listen(uint16_t port) {
    const tcp::endpoint address(asio::ip::address_v4::loopback(), port);
    error_code error;
    UniqueFd socket = new_socket(AF_INET);
    if (!socket) error = error_code(errno, boost::system::system_category());
    if (!error && !acceptor_.assign(address.protocol(), socket.get(), error)) socket.release();
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(address, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    TENDRIL_CHECK_AS(UsageError, !error, "metrics_port (TENDRIL_METRICS_PORT) ", port,
                     ": cannot listen at 127.0.0.1: ", error.message());
    return acceptor_.local_endpoint().port();
  }
  void accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [self = shared_from_this()](const error_code& error) {
      if (!self->acceptor_.is_open()) return;
      UniqueFd accepted;
      if (!error) accepted = accept_connection(self->acceptor_.native_handle());
      if (!accepted) return self->accept_later();
      self->accept();  // first: the rest may throw
      tcp::socket socket(self->acceptor_.get_executor(), tcp::v4(), accepted.get());
      accepted.release();
      self->connections_.remove_if([](const auto& one) { return one->closed(); });
      if (self->connections_.size() >= kMostConnections) {
        self->connections_.front()->close();
        self->connections_.pop_front();
      }
      self->connections_.push_back(std::make_shared<HttpConnection>(std::move(socket), self->agent_));
      self->connections_.back()->start();
    });
  }
  void close() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    for (const auto& connection : connections_) connection->close();
    connections_.clear();
  }

 private:
  /// Waits before the next attempt, because there may be no file descriptors left.
  void accept_later() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error && self->acceptor_.is_open()) self->accept();
    });
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const std::shared_ptr<Agent> agent_;
  std::list<std::shared_ptr<HttpConnection>> connections_;  // oldest first
};

MetricsServer::MetricsServer(std::shared_ptr<Agent> agent, int port)
    : observer_(Observer::get()), impl_(std::make_shared<Impl>(observer_->io(), std::move(agent))) {
  port_ = impl_->listen(static_cast<uint16_t>(port));
  asio::post(observer_->io(), [impl = impl_] { impl->accept(); });
}

MetricsServer::~MetricsServer() {
  auto closed = std::make_shared<std::promise<void>>();
  asio::post(observer_->io(), [impl = std::exchange(impl_, nullptr), closed] {
    impl->close();
    closed->set_value();
  });
  closed->get_future().wait_for(std::chrono::seconds(5));  // longer only if stderr is not read
}

}  // namespace tendril::rpc::detail
