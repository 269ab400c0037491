// The network of the operating system.
#include <fcntl.h>
#include <poll.h>
#include <sys/un.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
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

void check(const error_code& error) {
  if (error) throw boost::system::system_error(error);
}

/// Asio's sockets need a context, also if they are used only for synchronous operations. It is never run.
asio::io_context& unused_context() {
  static auto& instance = *new asio::io_context(1);  // never destroyed: agents may outlive static objects
  return instance;
}

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
  void reactor_ends() noexcept override { ready_ = nullptr; }

 private:
  std::function<void(int error)> ready_;
};

/// Asio opens the socket; the reactor waits for it by its native handle, because an Asio io_context could only be
/// polled by the leader beside the reactor's own events.
template <class Protocol>
class SystemAcceptor : public Acceptor {
 public:
  explicit SystemAcceptor(Reactor& reactor) : reactor_(reactor), acceptor_(unused_context()) {}

  void listen(const typename Protocol::endpoint& at, bool reuse) {
    error_code error;
    UniqueFd socket = new_socket(at.protocol().family());
    if (!socket) throw boost::system::system_error(error_of_errno());
    assign(at.protocol(), std::move(socket));
    if (reuse) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    check(error);
  }
  void assign(const Protocol& protocol, UniqueFd socket) {
    error_code error;
    acceptor_.assign(protocol, socket.get(), error);
    check(error);
    socket.release();
  }

  void wait(std::function<void(int error)> ready) override {
    if (!acceptor_.is_open()) return;
    auto watch = watch_.lock();
    if (watch) {
      watch->arm(std::move(ready));
      return reactor_.report_again(acceptor_.native_handle());
    }
    watch = std::make_shared<AcceptorWatch>();
    watch->arm(std::move(ready));
    reactor_.watch(acceptor_.native_handle(), watch);
    watch_ = watch;
  }
  bool has_pending() noexcept override {
    pollfd waiting{acceptor_.native_handle(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) > 0;
  }
  void close() noexcept override {
    if (!acceptor_.is_open()) return;
    reactor_.unwatch(acceptor_.native_handle());
    error_code ignored;
    acceptor_.close(ignored);
  }

 protected:
  static constexpr bool kTcp = std::is_same_v<Protocol, tcp>;

  Accepted take(sockaddr* from = nullptr, socklen_t* size = nullptr) {
    UniqueFd socket = accept_connection(acceptor_.native_handle(), from, size);
    if (!socket) return {.stream = nullptr, .from = {}, .error = errno == EAGAIN || errno == ECONNABORTED ? 0 : errno};
    tune_socket(socket.get(), kTcp);
    return {.stream = std::make_unique<SocketStream>(std::move(socket), kTcp), .from = {}};
  }

  Reactor& reactor_;
  typename Protocol::acceptor acceptor_;
  std::weak_ptr<AcceptorWatch> watch_;  // set once the reactor watches the acceptor
};

class UnixAcceptor final : public SystemAcceptor<Local> {
 public:
  explicit UnixAcceptor(Reactor& reactor) : SystemAcceptor(reactor) {
    static const bool swept = [] { return sweep_dead_folders(PrivateFolder::default_base()), true; }();
    (void)swept;
    folder_.emplace();
    path_ = folder_->socket_path();
    try {
      listen(Local::endpoint(path_), false);
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

class TcpAcceptor final : public SystemAcceptor<tcp> {
 public:
  using SystemAcceptor::SystemAcceptor;

  tcp::endpoint tcp_endpoint() const override { return acceptor_.local_endpoint(); }
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
    acceptor->listen(at, true);
    return acceptor;
  }
  std::unique_ptr<Acceptor> listen_tcp(Reactor& reactor, int socket) override {
    UniqueFd copy(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!copy) throw boost::system::system_error(error_of_errno());
    make_non_blocking(copy.get());
    auto acceptor = std::make_unique<TcpAcceptor>(reactor);
    acceptor->assign(tcp::v4(), std::move(copy));
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
