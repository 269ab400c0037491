#pragma once

#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;

/// All that a worker is in, as text for people: peers, calls in flight both ways with ages, handlers, references, the
/// pool, counters. Lists are cut after 100 lines. Thread-safe, and needs no thread of the agent's: it answers also
/// where all of them are stuck. SIGUSR1 writes it to the error output (InitOptions::status_signal).
std::string status(const Agent& agent);
/// ... of every agent of this process that has its references or a peer and has not been shut down, oldest first.
std::string status();

/// Counters, gauges and the histogram of latencies in Prometheus' text format (version 0.0.4), all named
/// tendril_rpc_*, labelled with worker and rank. As `status`, thread-safe and independent of the agent's threads.
/// docs/observability.md lists the metrics.
std::string prometheus_text(const Agent& agent);
/// ... of every agent of this process that has not been shut down. Their workers' names must differ.
std::string prometheus_text();

}  // namespace tendril::rpc

TENDRIL_API_END
