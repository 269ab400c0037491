// The connections that an agent makes to its peers.
#include <algorithm>
#include <utility>

#include "tendril/rpc/connect/listener.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/connector.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc {

namespace {

/// How often first connections are postponed while peers are connecting. The number is limited because a connecting
/// peer may stay silent.
constexpr int kMostLooks = 8;
/// How many first connections are started before the agent looks for connecting peers again.
constexpr std::size_t kConnectsAtOnce = 16;

}  // namespace

void Agent::Impl::reconnect(std::shared_ptr<detail::Session> session) {
  const auto link = std::dynamic_pointer_cast<detail::SocketLink>(session->link());
  const auto connector = std::make_shared<detail::Connector>(shared_from_this(), std::move(session));
  if (link->state().begun() || is_shut_down() || (first_connectors_.empty() && !has_connecting_peers()))
    return start(connector);
  note(connector);
  first_connectors_.push_back(connector);
  if (first_connectors_.size() == 1) connect_later();
}

void Agent::Impl::check_connection(WorkerId peer) {
  const auto session = open_session(peer);
  const auto link = session ? std::dynamic_pointer_cast<detail::SocketLink>(session->link()) : nullptr;
  if (link) loop->post_io([link] { link->disconnect("the peer has lost this worker"); });
}

bool Agent::Impl::has_connecting_peers() const {
  const auto accepting = listening();
  return accepting && accepting->has_connecting_peers();
}

/// If all workers call each other for the first time at once, both sides of each pair would connect, and one of the
/// two connections would be closed. So this agent first accepts the connections that peers have begun, which makes
/// most of its outgoing connections unnecessary.
void Agent::Impl::connect_later() {
  loop->post_io([weak = weak_from_this()] {
    const auto agent = weak.lock();
    if (!agent || agent->first_connectors_.empty()) return;
    if (agent->has_connecting_peers() && ++agent->looks_ < kMostLooks) return agent->connect_later();
    agent->looks_ = 0;
    const std::size_t now = std::min(kConnectsAtOnce, agent->first_connectors_.size());
    const auto end = agent->first_connectors_.begin() + static_cast<std::ptrdiff_t>(now);
    const std::vector<std::shared_ptr<detail::Connector>> soon(agent->first_connectors_.begin(), end);
    agent->first_connectors_.erase(agent->first_connectors_.begin(), end);
    for (const auto& one : soon) one->start();
    if (!agent->first_connectors_.empty()) agent->connect_later();
  });
}

void Agent::Impl::note(const std::shared_ptr<detail::Connector>& connector) {
  std::erase_if(connectors_, [](const auto& one) { return one.expired(); });
  connectors_.push_back(connector);
}

void Agent::Impl::start(const std::shared_ptr<detail::Connector>& connector) {
  note(connector);
  connector->start();
}

std::shared_ptr<detail::Connector> Agent::Impl::connector_of(const detail::Session& session) const {
  for (const auto& one : connectors_) {
    if (auto connector = one.lock(); connector && connector->is_for(session)) return connector;
  }
  return nullptr;
}

void Agent::Impl::cancel_connectors() {
  first_connectors_.clear();
  for (const auto& one : connectors_) {
    if (const auto connector = one.lock()) connector->cancel();
  }
}

}  // namespace tendril::rpc
