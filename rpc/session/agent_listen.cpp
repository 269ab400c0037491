// An agent's listening sockets, and the TLS context of its connections.
#include <algorithm>
#include <boost/asio/ip/tcp.hpp>

#include "tendril/rpc/connect/half_open.h"
#include "tendril/rpc/connect/listener.h"
#include "tendril/rpc/connect/security.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc {

namespace {

/// If `optional` and no folder or socket can be made (a full or read-only file system), TCP alone is used.
void listen_unix(detail::Listener& listener, const std::string& worker, bool optional) try {
  listener.listen_unix();
} catch (const UsageError& e) {
  if (!optional) throw;
  detail::log(detail::LogLevel::warn, worker,
              "rpc: worker '" + worker + "' accepts connections over TCP only: " + e.what());
}

void listen_tcp(detail::Listener& listener, const Agent::Impl& agent, const Agent::ListenOptions& options) {
  if (options.tcp_socket >= 0) {
    try {
      return listener.listen_tcp(options.tcp_socket);
    } catch (const std::exception& e) {
      throw UsageError(std::string("Agent::listen: no listening socket was inherited: ") + e.what());
    }
  }
  const boost::asio::ip::tcp::endpoint at(detail::address_of(options.tcp_host, "Agent::listen"), options.tcp_port);
  agent.check_reachable("Agent::listen", options.tcp_host, at.address().is_loopback());
  TENDRIL_CHECK_AS(UsageError, !at.address().is_unspecified() || !options.advertised_host.empty(), "Agent::listen: '",
                   options.tcp_host, "' is not an address that peers can dial: set advertised_host");
  try {
    listener.listen_tcp(at);
  } catch (const boost::system::system_error& e) {
    throw UsageError("Agent::listen: cannot listen on " + options.tcp_host + " port " +
                     std::to_string(options.tcp_port) + ": " + e.code().message());
  }
}

}  // namespace

Agent::Endpoint Agent::Impl::listen(const Agent::ListenOptions& how) {
  const auto opened = std::make_shared<detail::Listener>(
      loop, std::shared_ptr<detail::Admission>(shared_from_this(), &admission_),
      // All workers of a group connect to rank 0 at once.
      detail::Listener::Options{
          .worker = self.name,
          .max_half_open = detail::max_half_open() + static_cast<std::size_t>(options.world_size)});
  if (how.unix_socket) listen_unix(*opened, self.name, how.tcp);
  if (how.tcp) listen_tcp(*opened, *this, how);
  if (how.tcp) (void)security();  // reports a missing key now, not at the first connection
  Agent::Endpoint at{.unix_path = opened->unix_path()};
  if (const auto tcp = opened->tcp_endpoint()) {
    at.tcp_port = tcp->port();
    at.tcp_host = how.advertised_host.empty() || how.tcp_socket >= 0 ? tcp->address().to_string() : how.advertised_host;
  }
  {
    const std::lock_guard lock(mutex_);
    if (!accepting_ && !shut_down_) {
      accepting_ = opened;
      endpoint_ = at;
    }
  }
  if (listening() != opened) {
    opened->close();
    throw UsageError("Agent::listen: this agent already listens, or has been shut down");
  }
  opened->start();
  return at;
}

std::shared_ptr<detail::Listener> Agent::Impl::listening() const {
  const std::lock_guard lock(mutex_);
  return accepting_ && accepting_->is_open() ? accepting_ : nullptr;
}

std::optional<Agent::Endpoint> Agent::Impl::endpoint() const {
  const std::lock_guard lock(mutex_);
  if (!accepting_ || !accepting_->is_open()) return std::nullopt;
  return endpoint_;
}

std::shared_ptr<const detail::TlsContext> Agent::Impl::security() {
  if (options.tls || detail::network().is_trusted()) return detail::tls_context(options.tls, {});
  const SharedKey key = options.key ? options.key : SharedKey::of_this_user();  // may have been replaced
  const std::lock_guard lock(mutex_);
  if (!key_context_ || !std::ranges::equal(context_key_.bytes(), key.bytes())) {
    key_context_ = detail::tls_context({}, key);
    context_key_ = key;
  }
  return key_context_;
}

void Agent::Impl::check_reachable(const std::string& what, const std::string& host, bool loopback) const {
  TENDRIL_CHECK_AS(UsageError, loopback || options.key || options.tls, what, ": '", host,
                   "' is not a loopback address, and other hosts are refused without a shared key. ", kHowToMakeAKey);
}

}  // namespace tendril::rpc
