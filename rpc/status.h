#pragma once

#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;

/// Returns the state of a worker as human-readable text: peers, calls in flight in both directions with their ages,
/// handlers, references, the pool, and counters. Each list is limited to 100 lines. Thread-safe. Needs none of the
/// agent's threads, so it works even if all of them are stuck. SIGUSR1 writes this text to stderr
/// (InitOptions::status_signal).
std::string status(const Agent& agent);
/// Returns the state of all agents of this process that have been set up for RRefs or have a peer, and that have not
/// been shut down, oldest first.
std::string status();

/// Returns the counters, the gauges and the latency histogram in Prometheus' text format (version 0.0.4). All metrics
/// are named tendril_rpc_* and labelled with worker and rank; docs/observability.md lists them. Like `status`, it is
/// thread-safe and needs none of the agent's threads.
std::string prometheus_text(const Agent& agent);
/// Returns the metrics of all agents of this process that have not been shut down. Their workers' names must differ.
std::string prometheus_text();

}  // namespace tendril::rpc

TENDRIL_API_END
