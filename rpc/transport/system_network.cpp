// The network of the operating system.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/private_folder.h"
#include "tendril/rpc/system/simulator.h"
#include "tendril/rpc/threads/reactor.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/socket_stream.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;

namespace {

error_code error_of_errno() { return {errno, boost::system::system_category()}; }

/// Waits for connections on behalf of an acceptor. The reactor owns it, so that an armed function, which may own the
/// acceptor, is destroyed with the reactor at the latest.
class AcceptorWatch final : public Reactor::Watched {
 public:
  void arm(std::function<void(int error)> f) { ready_ = std::move(f); }

  bool ready(uint32_t) override {
    const auto f = std::exchange(ready_, nullptr);
    if (f) f(0);  // an error of the socket is reported by accept
    return true;
  }

 private:
  std::function<void(int error)> ready_;
};

class SystemAcceptor : public Acceptor {
 public:
  SystemAcceptor(Reactor& reactor, bool tcp) : reactor_(reactor), tcp_(tcp) {}
  ~SystemAcceptor() override {
    if (!watch_.expired()) reactor_.unwatch(socket_.get());
  }

  /// Throws boost::system::system_error.
  void listen(const sockaddr* at, std::size_t size) {
    UniqueFd socket = new_socket(at->sa_family);
    const int on = 1;
    const bool listens =
        socket && (!tcp_ || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) &&
        ::bind(socket.get(), at, static_cast<socklen_t>(size)) == 0 && ::listen(socket.get(), SOMAXCONN) == 0;
    if (!listens) throw boost::system::system_error(error_of_errno());
    socket_ = std::move(socket);
  }
  void assign(UniqueFd listening) { socket_ = std::move(listening); }

  void wait(std::function<void(int error)> ready) override {
    if (!socket_) return;
    auto watch = watch_.lock();
    if (watch) {
      watch->arm(std::move(ready));
      return reactor_.report_again(socket_.get());
    }
    watch = std::make_shared<AcceptorWatch>();
    watch->arm(std::move(ready));
    reactor_.watch(socket_.get(), watch);
    watch_ = watch;
  }
  bool has_pending() noexcept override {
    pollfd waiting{socket_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) > 0;
  }
  void close() noexcept override {
    const auto armed = watch_.lock();  // its function may own this acceptor
    if (armed) reactor_.unwatch(socket_.get());
    socket_.reset();
  }

 protected:
  Accepted take(sockaddr* from = nullptr, socklen_t* size = nullptr) {
    UniqueFd socket = accept_connection(socket_.get(), from, size);
    if (!socket) return {.stream = nullptr, .from = {}, .error = errno == EAGAIN || errno == ECONNABORTED ? 0 : errno};
    tune_socket(socket.get(), tcp_);
    return {.stream = std::make_unique<SocketStream>(std::move(socket), tcp_), .from = {}};
  }

  Reactor& reactor_;
  const bool tcp_;
  UniqueFd socket_;
  std::weak_ptr<AcceptorWatch> watch_;  // set once the reactor watches the socket
};

class UnixAcceptor final : public SystemAcceptor {
 public:
  explicit UnixAcceptor(Reactor& reactor) : SystemAcceptor(reactor, false) {
    static const bool swept = [] { return sweep_dead_folders(PrivateFolder::default_base()), true; }();
    (void)swept;
    folder_.emplace();
    path_ = folder_->socket_path();
    try {
      const Local::endpoint at(path_);
      listen(at.data(), at.size());
    } catch (const boost::system::system_error& e) {
      throw UsageError("Agent::listen: cannot listen on " + path_ + ": " + e.code().message());
    }
  }

  std::string unix_path() const override { return path_; }
  Accepted accept() override {
    Accepted accepted = take();
    accepted.from = "a process of this user";
    return accepted;
  }
  void hide() noexcept override { folder_.reset(); }

 private:
  std::optional<PrivateFolder> folder_;
  std::string path_;
};

class TcpAcceptor final : public SystemAcceptor {
 public:
  explicit TcpAcceptor(Reactor& reactor) : SystemAcceptor(reactor, true) {}

  tcp::endpoint tcp_endpoint() const override {
    tcp::endpoint at;
    auto size = static_cast<socklen_t>(at.capacity());
    if (::getsockname(socket_.get(), at.data(), &size) != 0) throw boost::system::system_error(error_of_errno());
    at.resize(size);
    return at;
  }
  Accepted accept() override {
    tcp::endpoint from;
    auto size = static_cast<socklen_t>(from.capacity());
    Accepted accepted = take(from.data(), &size);
    if (!accepted.stream) return accepted;
    from.resize(size);
    accepted.from = from.address().to_string();
    return accepted;
  }
};

class SystemNetwork final : public Network {
 public:
  Connecting connect_unix(const std::string& path) override {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (path.size() >= sizeof name.sun_path) return {.stream = nullptr, .error = ENAMETOOLONG};
    std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
    return connect(reinterpret_cast<const sockaddr*>(&name), sizeof name, false);
  }
  Connecting connect_tcp(const tcp::endpoint& to) override {
    return connect(to.data(), static_cast<socklen_t>(to.size()), true);
  }

  std::unique_ptr<Acceptor> listen_unix(Reactor& reactor) override { return std::make_unique<UnixAcceptor>(reactor); }
  std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, const tcp::endpoint& at) override {
    auto acceptor = std::make_unique<TcpAcceptor>(reactor);
    acceptor->listen(at.data(), at.size());
    return acceptor;
  }
  std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, int socket) override {
    UniqueFd copy(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!copy) throw boost::system::system_error(error_of_errno());
    make_non_blocking(copy.get());
    auto acceptor = std::make_unique<TcpAcceptor>(reactor);
    acceptor->assign(std::move(copy));
    return acceptor;
  }

  std::vector<asio::ip::address> look_up(const std::string& host, error_code& error) override {
    asio::io_context io;
    std::vector<asio::ip::address> addresses;
    for (const auto& one : tcp::resolver(io).resolve(host, "", error)) addresses.push_back(one.endpoint().address());
    return addresses;
  }
  /// A socket can be bound only to an address of this host.
  bool is_of_this_host(const asio::ip::address& address) override {
    const asio::ip::udp::endpoint endpoint(address, 0);
    const UniqueFd socket(::socket(endpoint.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return socket && ::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
  }

 private:
  static Connecting connect(const sockaddr* to, socklen_t size, bool tcp) {
    UniqueFd socket = new_socket(to->sa_family);
    if (!socket) return {.stream = nullptr, .error = errno};
    tune_socket(socket.get(), tcp);
    int error = ::connect(socket.get(), to, size) == 0 ? 0 : errno;
    if (tcp && error == EINTR) error = EINPROGRESS;
    if (error != 0 && !(tcp && error == EINPROGRESS)) return {.stream = nullptr, .error = error};
    return {.stream = std::make_unique<SocketStream>(std::move(socket), tcp), .error = error};
  }
};

}  // namespace

Network& network() {
  static auto& system = *new SystemNetwork;  // groups that end after main still use it
  return simulator != nullptr ? simulator->network() : system;
}

}  // namespace tendril::rpc::detail
