#pragma once

#include <exception>

#include "tendril/rpc/launch/group_member.h"

namespace tendril::rpc::detail {

/// The part of a graceful shutdown that all workers do together: all are there, calls have ended (drain.h), references
/// are released. Each phase has kLeastPhase at least. Throws TimeoutError, PeerLostError, RRefError; all others learn
/// why then. `accept_losses`: ShutdownOptions.
void leave_together(GroupMember& member, Clock::time_point deadline, bool accept_losses);

/// Leaves, alone: whoever waits for this group here fails, the agent is shut down, the trace written. Returns what the
/// agent's shutdown has thrown. To be called once; also of a worker that has joined in part.
std::exception_ptr leave(GroupMember& member, Clock::time_point deadline) noexcept;

/// The deadline of a phase that begins now.
Clock::time_point at_least_a_phase(Clock::time_point deadline);

}  // namespace tendril::rpc::detail
