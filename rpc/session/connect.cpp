#include "tendril/rpc/session/connect.h"

#include <sstream>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/connector.h"
#include "tendril/rpc/transport/sockets.h"

namespace tendril::rpc::detail {

void connect(Agent::Impl& agent, const WorkerInfo& peer, const Agent::Endpoint& endpoint, Clock::time_point deadline) {
  const std::string what = "connect to " + name_of(peer);
  TENDRIL_CHECK_AS(UsageError, !peer.name.empty() || agent.options.device_maps.empty(), what,
                   ": the peer's name is missing, but AgentOptions::device_maps refers to peers by name");
  if (agent.session(peer.id)) throw UsageError(what + ": already connected");
  const BlockedScope blocked("Agent::connect");
  Agent::Endpoint resolved = endpoint;  // resolved on this thread, which may block
  if (endpoint.tcp_port != 0) {
    const auto address = address_of(endpoint.tcp_host, what);
    agent.check_reachable(what, endpoint.tcp_host, address.is_loopback());
    resolved.tcp_host = address.to_string();
  }
  const Ref<FutureState<void>> done(new FutureState<void>(agent.loop.get()));
  const auto connector = std::make_shared<Connector>(agent.shared_from_this(), peer, resolved, deadline,
                                                     [done](const std::exception_ptr& error) {
                                                       if (error) {
                                                         done->try_set_error(error);
                                                       } else {
                                                         done->try_set_value();
                                                       }
                                                     });
  agent.loop->post_io([self = agent.shared_from_this(), connector] { self->start(connector); });
  // The connector finishes by the deadline, unless this worker is shut down first.
  while (!done->wait_until(Clock::now() + std::chrono::milliseconds(200))) {
    if (agent.is_shut_down()) throw UsageError(what + ": worker '" + agent.self.name + "' has been shut down");
  }
  done->rethrow_error();
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
