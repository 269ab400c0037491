#include "tendril/rpc/session/connect.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/handshake.h"

namespace tendril::rpc::detail {

namespace {

std::string describe(const WorkerInfo& peer) {
  return "connect to worker '" + peer.name + "' (rank " + std::to_string(peer.id) + ")";
}

/// The peer had no room for this connection: its queue was full, or too many were introducing themselves.
struct Busy {
  std::string why;
};

/// Waits until the socket is ready. Throws TimeoutError.
void await(int socket, short events, const WorkerInfo& peer, const char* phase, Clock::time_point deadline) {
  for (;;) {
    int timeout = -1;
    if (deadline != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) throw TimeoutError(describe(peer) + ": no answer in time while " + phase);
      timeout = static_cast<int>(std::min<int64_t>(left, 60'000));
    }
    pollfd one{socket, events, 0};
    if (::poll(&one, 1, timeout) > 0) return;
  }
}

/// An unconnected socket and the address; connects it. Empty: nobody there (`why` says more).
UniqueFd open_socket(const sockaddr* address, socklen_t size, const WorkerInfo& peer, Clock::time_point deadline,
                     std::string& why) {
  UniqueFd socket(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) throw UsageError(describe(peer) + ": no socket: " + last_error());
  tune_socket(socket.get(), address->sa_family != AF_UNIX);
  if (::connect(socket.get(), address, size) != 0) {
    if (errno == EAGAIN) throw Busy{"its queue of connections is full"};
    if (errno != EINPROGRESS && errno != EINTR) {
      why = last_error();
      return UniqueFd();
    }
    await(socket.get(), POLLOUT, peer, "connecting", deadline);
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      why = std::strerror(error);
      return UniqueFd();
    }
  }
  return socket;
}

UniqueFd open_unix(const std::string& path, const WorkerInfo& peer, Clock::time_point deadline, std::string& why) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    why = "the path is too long";
    return UniqueFd();
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd socket = open_socket(reinterpret_cast<const sockaddr*>(&address), sizeof address, peer, deadline, why);
  if (socket.get() >= 0 && !peer_is_same_user(socket.get())) {
    why = "it belongs to another user";
    return UniqueFd();
  }
  return socket;
}

UniqueFd open_tcp(const Agent::Impl& agent, const std::string& host, uint16_t port, const WorkerInfo& peer,
                  Clock::time_point deadline, std::string& why) {
  boost::asio::ip::tcp::endpoint endpoint(address_of(host, describe(peer)), port);
  check_reachable(agent, describe(peer), host, endpoint.address().is_loopback());
  return open_socket(endpoint.data(), static_cast<socklen_t>(endpoint.size()), peer, deadline, why);
}

void send_all(int socket, const Bytes& bytes, const WorkerInfo& peer, Clock::time_point deadline) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      await(socket, POLLOUT, peer, "introducing this worker", deadline);
    } else if (errno != EINTR) {
      throw Busy{last_error()};
    }
  }
}

/// Exactly `size` bytes: what follows belongs to the link.
void receive(int socket, std::byte* to, std::size_t size, const WorkerInfo& peer, Clock::time_point deadline) {
  while (size > 0) {
    const ssize_t n = ::recv(socket, to, size, 0);
    if (n > 0) {
      to += n;
      size -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      throw Busy{"it closed the connection without introducing itself"};
    } else if (errno == EAGAIN) {
      await(socket, POLLIN, peer, "waiting for it to introduce itself", deadline);
    } else if (errno != EINTR) {
      throw Busy{last_error()};
    }
  }
}

/// The rest of a message whose first bytes say how long it is.
void receive_rest(int socket, Bytes& message, std::optional<std::size_t> size, const WorkerInfo& peer,
                  Clock::time_point deadline) {
  const std::size_t have = message.size();
  message.resize(std::max(size.value_or(have), have));
  receive(socket, message.data() + have, message.size() - have, peer, deadline);
}

/// The proof of the key as far as this side has to wait for the other. Throws ProofError where the keys differ.
Proof prove(const Agent::Impl& agent, int socket, const WorkerInfo& peer, Clock::time_point deadline) {
  Proof proof(key_of(agent), ProofPurpose::session, Proof::Role::dialler);
  send_all(socket, proof.challenge(), peer, deadline);
  Bytes answer(kProofPrefixBytes);
  receive(socket, answer.data(), answer.size(), peer, deadline);
  receive_rest(socket, answer, proof_size(answer), peer, deadline);
  try {
    proof.check_answer(answer);
  } catch (const ProofError& e) {
    if (!proof_refusal(answer)) send_all(socket, encode_proof_refusal("the keys differ"), peer, deadline);
    throw ProofError(describe(peer) + ": " + e.what());
  }
  return proof;
}

void connect_once(Agent::Impl& agent, const WorkerInfo& peer, const Agent::Endpoint& endpoint,
                  Clock::time_point deadline) {
  std::string no_unix = "no path", no_tcp = "no port";
  UniqueFd socket;
  if (!endpoint.unix_path.empty()) socket = open_unix(endpoint.unix_path, peer, deadline, no_unix);
  const bool tcp = socket.get() < 0;
  if (tcp && endpoint.tcp_port != 0) {
    socket = open_tcp(agent, endpoint.tcp_host, endpoint.tcp_port, peer, deadline, no_tcp);
  }
  if (socket.get() < 0) {
    throw PeerLostError(
        describe(peer) + ": nobody at " + endpoint.to_string() + " (unix: " + no_unix + ", tcp: " + no_tcp + ")",
        false);
  }
  std::optional<Proof> proof;
  if (tcp) proof.emplace(prove(agent, socket.get(), peer, deadline));
  const Hello mine = hello_of(agent, peer);
  Bytes said = encode(mine);
  if (proof) {
    const Proof::Tag tag = proof->seal(said);
    said.insert(said.end(), tag.begin(), tag.end());
  }
  send_all(socket.get(), said, peer, deadline);
  Bytes answer(kHelloPrefixBytes);
  receive(socket.get(), answer.data(), answer.size(), peer, deadline);
  if (proof && is_proof(answer)) {
    receive_rest(socket.get(), answer, proof_size(answer), peer, deadline);
    throw ProofError(describe(peer) +
                     ": it refused the connection: " + proof_refusal(answer).value_or("no reason given"));
  }
  receive_rest(socket.get(), answer, hello_size(answer), peer, deadline);
  if (proof) {
    Proof::Tag tag;
    receive(socket.get(), tag.data(), tag.size(), peer, deadline);
    proof->check(answer, tag);
  }
  const Hello theirs = decode_hello(answer);
  check_hello(mine, {.group = mine.group, .world_size = mine.world_size, .worker = peer}, theirs);
  adopt_socket(agent, std::move(socket), tcp, theirs);
}

}  // namespace

void connect(Agent::Impl& agent, const WorkerInfo& peer, const Agent::Endpoint& endpoint, Clock::time_point deadline) {
  TENDRIL_CHECK_AS(UsageError, !peer.name.empty() || agent.options.device_maps.empty(), describe(peer),
                   ": device maps are by name, and no name was given");
  if (agent.session(peer.id)) throw UsageError(describe(peer) + ": it is connected already");
  const BlockedScope blocked("Agent::connect");
  // A peer that has ended is noticed: then nobody listens there any more.
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
    try {
      return connect_once(agent, peer, endpoint, deadline);
    } catch (const Busy& busy) {
      if (deadline - pause <= Clock::now())
        throw TimeoutError(describe(peer) + ": it was too busy until the deadline: " + busy.why);
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tendril::rpc::detail

namespace tendril::rpc {

std::string Agent::Endpoint::to_string() const {
  std::string text;
  if (!unix_path.empty()) text.append("unix:").append(unix_path);
  if (tcp_port == 0) return text;
  if (!text.empty()) text.append(",");
  return text.append("tcp:").append(tcp_host).append(":").append(std::to_string(tcp_port));
}

Agent::Endpoint Agent::Endpoint::parse(const std::string& text) {
  Endpoint endpoint;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    if (part.rfind("unix:/", 0) == 0) {
      endpoint.unix_path = part.substr(5);
      continue;
    }
    const std::size_t colon = part.rfind(':');
    const std::string port = colon > 4 && colon != std::string::npos ? part.substr(colon + 1) : "";
    const bool number = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    const bool good = part.rfind("tcp:", 0) == 0 && number && std::stoi(port) > 0 && std::stoi(port) <= 65535;
    TENDRIL_CHECK_AS(UsageError, good, "Endpoint: got '", text, "', expected unix:PATH, tcp:HOST:PORT, or both");
    endpoint.tcp_host = part.substr(4, colon - 4);
    endpoint.tcp_port = static_cast<uint16_t>(std::stoi(port));
  }
  TENDRIL_CHECK_AS(UsageError, !endpoint.unix_path.empty() || endpoint.tcp_port != 0, "Endpoint: got '", text,
                   "', expected unix:PATH, tcp:HOST:PORT, or both");
  return endpoint;
}

}  // namespace tendril::rpc
