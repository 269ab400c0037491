#pragma once

#include <exception>

#include "tendril/rpc/group/group_member.h"

namespace tendril::rpc::detail {

/// The part of a graceful shutdown that all workers do together: they wait for each other, until calls have ended
/// (drain.h), and until references have been released. Each phase has at least kMinPhaseTime. Throws TimeoutError,
/// PeerLostError, RRefError; the other workers then receive the reason. `accept_losses`: as in ShutdownOptions.
void leave_together(GroupMember& member, Clock::time_point deadline, bool accept_losses);

/// Leaves alone: fails all waits for the group at this worker, shuts down the agent and writes the trace. Returns the
/// exception that the agent's shutdown threw, or null. Call it once, also for a worker that has joined only in part.
std::exception_ptr leave(GroupMember& member, Clock::time_point deadline) noexcept;

/// Returns the deadline for a phase that begins now.
Clock::time_point with_min_phase_time(Clock::time_point deadline);

}  // namespace tendril::rpc::detail
