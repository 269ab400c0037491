#pragma once

#include "bench/rpc/raw.h"

namespace tendril::bench {

/// What an empty call costs beside 10 to 100,000 pending calls, peers and references, as a Markdown table of medians in
/// microseconds; then how long a million calls with a deadline of 10 s to a server that stands still take to fail, and
/// what memory each needs. `quick`: up to 10,000 of each. CPUs as Server's.
void print_crowded(Transport transport, int client_cpu, int server_cpu, bool quick);

}  // namespace tendril::bench
