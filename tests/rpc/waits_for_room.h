#pragma once

#include <algorithm>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/session/agent_impl.h"

namespace rpc_test {

/// Whether a call from `agent` to `peer` waits because the peer's window or the send queue is full.
inline bool waits_for_room(const tendril::rpc::Agent& agent, tendril::rpc::WorkerId peer) {
  const auto session = agent.impl().session(peer);
  return session && std::ranges::any_of(agent.calls_in_flight(), [&](const tendril::rpc::CallInFlight& call) {
           return call.peer.id == peer && session->link()->waits_for_room(call.call_id);
         });
}

}  // namespace rpc_test
