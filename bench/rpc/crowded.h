#pragma once

#include "bench/rpc/raw.h"

namespace tendril::bench {

/// Prints a Markdown table of the median time of an empty call, in microseconds, while 10 to 100,000 pending calls,
/// references or peers exist. Then prints how long a million calls with a deadline of 10 s to a suspended server take
/// to fail, and the memory per call. `quick`: at most 10,000 of each, and 100,000 calls. CPUs as Server's.
void print_crowded(Transport transport, int client_cpu, int server_cpu, bool quick);

}  // namespace tendril::bench
