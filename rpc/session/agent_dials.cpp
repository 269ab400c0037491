// The connections that an agent makes to its peers.
#include <algorithm>
#include <utility>

#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/dial.h"
#include "tendril/rpc/session/listener.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc {

namespace {

/// So often in a row the reactor does what can be done at once before first connections are made all the same: who
/// connects may keep silent.
constexpr int kMostLooks = 8;
/// And so many are made before it has another look.
constexpr std::size_t kDialsAtOnce = 16;

}  // namespace

void Agent::Impl::reconnect(std::shared_ptr<detail::Session> session) {
  const auto link = std::dynamic_pointer_cast<detail::SocketLink>(session->link());
  const auto dial = std::make_shared<detail::Dial>(shared_from_this(), std::move(session));
  if (link->state().begun() || is_shut_down() || (first_dials_.empty() && !somebody_connects()))
    return start_dial(dial);
  note_dial(dial);
  first_dials_.push_back(dial);
  if (first_dials_.size() == 1) dial_later();
}

void Agent::Impl::check_connection(WorkerId peer) {
  const auto session = open_session(peer);
  const auto link = session ? std::dynamic_pointer_cast<detail::SocketLink>(session->link()) : nullptr;
  if (link) loop->post_io([link] { link->disconnect("the peer has lost this worker"); });
}

bool Agent::Impl::somebody_connects() const {
  const auto accepting = listening();
  return accepting && accepting->somebody_connects();
}

/// Where all call all for the first time at once, both sides of each pair would connect, and one of the two connections
/// would be closed again. So those that others have begun come first: they make most of the own ones needless.
void Agent::Impl::dial_later() {
  loop->post_io([weak = weak_from_this()] {
    const auto agent = weak.lock();
    if (!agent || agent->first_dials_.empty()) return;
    if (agent->somebody_connects() && ++agent->looks_ < kMostLooks) return agent->dial_later();
    agent->looks_ = 0;
    const std::size_t now = std::min(kDialsAtOnce, agent->first_dials_.size());
    const auto end = agent->first_dials_.begin() + static_cast<std::ptrdiff_t>(now);
    const std::vector<std::shared_ptr<detail::Dial>> dials(agent->first_dials_.begin(), end);
    agent->first_dials_.erase(agent->first_dials_.begin(), end);
    for (const auto& dial : dials) dial->start();
    if (!agent->first_dials_.empty()) agent->dial_later();
  });
}

void Agent::Impl::note_dial(const std::shared_ptr<detail::Dial>& dial) {
  std::erase_if(dials_, [](const auto& one) { return one.expired(); });
  dials_.push_back(dial);
}

void Agent::Impl::start_dial(const std::shared_ptr<detail::Dial>& dial) {
  note_dial(dial);
  dial->start();
}

std::shared_ptr<detail::Dial> Agent::Impl::dial_of(const detail::Session& session) const {
  for (const auto& one : dials_) {
    if (auto dial = one.lock(); dial && dial->is_for(session)) return dial;
  }
  return nullptr;
}

void Agent::Impl::cancel_dials() {
  first_dials_.clear();
  for (const auto& one : dials_) {
    if (const auto dial = one.lock()) dial->cancel();
  }
}

}  // namespace tendril::rpc
