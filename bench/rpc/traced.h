#pragma once

#include "bench/rpc/raw.h"
#include "tendril/rpc/agent.h"

namespace tendril::bench {

/// Has the agent record its calls and handlers, as TENDRIL_TRACE does, into memory alone.
void trace(rpc::Agent& agent);

/// Prints what an empty call takes with and without a trace at both workers: pairs of new servers, turn about, since a
/// machine's speed changes by more than a trace costs.
void print_traced(Transport transport, int client_cpu, int server_cpu, int pairs);

}  // namespace tendril::bench
